// The torch code of MixBCT, BT2 and HypMix against the golden vectors, in float64 and in float32.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/trainer/golden_file_torch.h"
#include "trainer/losses/bt2_torch.h"
#include "trainer/losses/hypmix_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using nlohmann::json;
using torch::Tensor;

class GoldenMethods : public testing::TestWithParam<torch::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Of, GoldenMethods, testing::Values(torch::kFloat64, torch::kFloat32),
                         [](const auto& test) { return test.param == torch::kFloat32 ? "Float32" : "Float64"; });

std::vector<bool> Flags(const Tensor& x) {
  std::vector<bool> out;
  for (int64_t i = 0; i < x.size(0); ++i) out.push_back(x[i].item<bool>());
  return out;
}

TEST_P(GoldenMethods, MixbctKeepsTheSameRowsWhateverTheirOrder) {
  for (const auto& path : FilesOf("mixbct_denoise")) {
    Golden g(path, GetParam());
    const Tensor features = g.Matrix(g.in("features"));
    const Tensor labels = torch::tensor(g.in("labels").get<std::vector<int64_t>>());
    const double share = g.in("T");
    const DenoisedRows rows = DenoiseRows(features, labels, share);
    g.Near("column_norms", rows.column_norms, g.expected("column_norms"));
    g.Near("distance_to_class_mean", rows.distance, g.expected("distance_to_class_mean"));
    EXPECT_EQ(Flags(rows.keep), g.expected("keep").get<std::vector<bool>>());
    g.Near("kept_per_class", torch::bincount(labels.masked_select(rows.keep)), g.expected("kept_per_class"));
    const Tensor order = torch::tensor(g.in("shuffled_order").get<std::vector<int64_t>>());
    EXPECT_EQ(Flags(DenoiseRows(features.index_select(0, order), labels.index_select(0, order), share).keep),
              g.expected("keep_after_shuffle").get<std::vector<bool>>());
  }
}

TEST_P(GoldenMethods, MixbctReplacesRowsByUnitOldOnesThatTakeNoGradient) {
  for (const auto& path : FilesOf("mixbct_mix")) {
    Golden g(path, GetParam());
    const Tensor old = g.Matrix(g.in("old_features_raw"));
    const Tensor fresh = g.Matrix(g.in("new_features_raw")).requires_grad_();
    const std::vector<bool> keep = g.in("old_keep").get<std::vector<bool>>();
    EXPECT_EQ(DrawReplaced(keep, g.in("alpha"), Rng(1)).size(), g.expected("n_replace").get<size_t>());
    const Tensor mixed = MixRows(fresh, old, g.in("replaced_positions").get<std::vector<int64_t>>());
    g.Near("mixed_normalised", UnitRows(mixed), g.expected("mixed_normalised"));
    // The sum of squares has a gradient at every row but a zero one.
    const Tensor flows = GradientOf(mixed.square().sum(), fresh).abs().sum(1) > 0;
    EXPECT_EQ(Flags(flows), g.expected("grad_flows_to_new").get<std::vector<bool>>());
  }
}

TEST_P(GoldenMethods, Bt2Transform) {
  const auto files = FilesOf("bt2_");
  for (const auto& path : files) {
    Golden g(path, GetParam());
    const Tensor x1 = g.Matrix(g.in("X1_lower")), x2 = g.Matrix(g.in("X2_lower"));
    const Tensor b1 = OrthogonalOf(x1, /*cayley=*/false), b2 = OrthogonalOf(x2, /*cayley=*/false);
    g.Near("B1_expm", b1, g.expected("B1_expm"));
    g.Near("B2_expm", b2, g.expected("B2_expm"));
    g.Near("B1_cayley", OrthogonalOf(x1, /*cayley=*/true), g.expected("B1_cayley"));
    g.Near("B2_cayley", OrthogonalOf(x2, /*cayley=*/true), g.expected("B2_cayley"));
    Bt2Shape shape{g.in("n"), g.in("m"), g.in("d"), g.in("C")};
    shape.relu_input = false;
    const Bt2Parts parts =
        ApplyBt2(g.Matrix(g.in("phi1")), shape, b1, b2, g.Matrix(g.in("f_weight")), g.Vector(g.in("f_bias")));
    const json& rows = g.expected("rows");
    ASSERT_EQ(parts.phi_new.size(0), static_cast<int64_t>(rows.size()));
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i);
      g.Near("phi2", parts.phi2[row], rows[i].at("phi2"));
      g.Near("phi3", parts.phi3[row], rows[i].at("phi3"));
      g.Near("phi5", parts.phi5[row], rows[i].at("phi5"));
      g.Near("phi_new", parts.phi_new[row], rows[i].at("phi_new"));
      g.Near("norm_phi_new_sq", parts.phi_new[row].square().sum(), rows[i].at("norm_phi_new_sq"));
    }
    g.Near("new_new_inner", torch::matmul(parts.phi_new, parts.phi_new.t()), g.expected("new_new_inner"));
    const Tensor prefix = parts.phi_new.narrow(1, 0, shape.old_dimension);
    g.Near("new_old_inner_truncated", torch::matmul(prefix, g.Matrix(g.in("phi_old")).t()),
           g.expected("new_old_inner_truncated"));
  }
}

TEST_P(GoldenMethods, HypMixDistancesAndLoss) {
  for (const auto& path : FilesOf("hypmix_")) {
    Golden g(path, GetParam());
    const Tensor x0 = g.Matrix(g.in("x0_raw")), x1 = g.Matrix(g.in("x1_raw"));
    HypMixOptions options;
    options.curvature = g.in("c");
    g.Near("D_hyp_01", HypMixDistances(UnitRows(x0), UnitRows(x1), options.curvature), g.expected("D_hyp_01"));
    int losses = 0;
    for (const auto& [key, value] : g.file.at("expected").items()) {
      if (std::sscanf(key.c_str(), "loss_te%lf_th%lf_lam%lf", &options.tau_e, &options.tau_h, &options.lambda) != 3) {
        continue;
      }
      ++losses;
      g.Near(key, HypMixLoss(x0, x1, options), value);
    }
    EXPECT_GT(losses, 0);
  }
}

}  // namespace
}  // namespace lightcone
