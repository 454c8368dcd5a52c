// The torch code of the Euclidean baselines against the golden vectors euclid_baselines*, in float64 and in float32.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "tests/trainer/golden_file_torch.h"
#include "trainer/losses/pairwise_torch.h"
#include "trainer/old_head_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

class GoldenBaselines : public testing::TestWithParam<torch::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Of, GoldenBaselines, testing::Values(torch::kFloat64, torch::kFloat32),
                         [](const auto& test) { return test.param == torch::kFloat32 ? "Float32" : "Float64"; });

TEST_P(GoldenBaselines, EveryLossOfTheFile) {
  const auto files = FilesOf("euclid_baselines");
  ASSERT_FALSE(files.empty()) << GoldenFolder();
  for (const auto& path : files) {
    const Golden g(path, GetParam());
    const Tensor fresh = g.Matrix(g.in("new_raw")), old = g.Matrix(g.in("old_raw"));
    const std::vector<int64_t> classes = g.in("labels").get<std::vector<int64_t>>();
    const Tensor labels = torch::tensor(classes, torch::kInt64);
    for (const auto& [key, value] : g.expected("hot_refresh").items()) {
      const double tau = std::stod(key.substr(3));
      g.Near("hot_refresh " + key, ContraLoss(fresh, old, labels, {tau, 0, true}).mean(), value);
    }
    for (const auto& [key, value] : g.expected("contra_n2o_only").items()) {
      const double tau = std::stod(key.substr(3));
      g.Near("contra " + key, ContraLoss(fresh, old, labels, {tau, 0, false}).mean(), value);
    }
    g.Near("hoc removed", HocLoss(fresh, old, labels, 10, false).mean(), g.expected("hoc_mu10_same_class_removed"));
    g.Near("hoc zeroed", HocLoss(fresh, old, labels, 10, true).mean(),
           g.expected("hoc_mu10_as_coded_same_class_logit_zero"));
    g.Near("l2 norm", L2NormLoss(fresh, old), g.expected("l2_norm_mean_mixbct"));
    g.Near("l2 mse", L2MseLoss(fresh, old), g.expected("l2_mse_opencompatible"));
    OldHead head;
    head.weight = g.Matrix(g.in("old_classifier"));
    std::vector<int64_t> rows;
    for (int64_t c = 0; c < 1000; ++c) rows.push_back(c < head.weight.size(0) ? c : -1);
    head.row_of = torch::tensor(rows, torch::kInt64);
    g.Near("bct_influence", head.Loss(fresh, labels), g.expected("bct_influence"));
  }
}

}  // namespace
}  // namespace lightcone
