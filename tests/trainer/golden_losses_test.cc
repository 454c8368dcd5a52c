// The torch code of the losses against the golden vectors, in float64 (to check the formulas) and in float32 (as they
// train): rince_*, entail_grad_*, lorentz_mlr_*, rescale_clip_* of $LIGHTCONE_GOLDEN_DIR, else
// <source>/../shared/golden, else tests/golden/data.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/trainer/golden_file_torch.h"
#include "trainer/losses/contrast_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

using nlohmann::json;
using torch::Tensor;

class GoldenLosses : public testing::TestWithParam<torch::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Of, GoldenLosses, testing::Values(torch::kFloat64, torch::kFloat32),
                         [](const auto& test) { return test.param == torch::kFloat32 ? "Float32" : "Float64"; });

LossDistance DistanceOf(const std::string& name) {
  if (name == "sqlorentz") return LossDistance::kSquared;
  if (name == "neg_inner") return LossDistance::kInner;
  EXPECT_EQ(name, "geodesic");
  return LossDistance::kGeodesic;
}

TEST_P(GoldenLosses, RinceAndInfoNceWithGradients) {
  const auto files = FilesOf("rince_");
  ASSERT_FALSE(files.empty()) << GoldenFolder();
  for (const auto& path : files) {
    Golden g(path, GetParam());
    const double curvature = g.in("K");
    const Tensor z_n = g.Matrix(g.in("z_n")).requires_grad_(), z_o = g.Matrix(g.in("z_o"));
    const LorentzPoints fresh = ExpOrigin(z_n, curvature), old = ExpOrigin(z_o, curvature);
    for (const auto& [name, matrix] : g.expected("distance_matrix").items()) {
      g.Near("distance " + name, DistanceMatrix(fresh, old, curvature, DistanceOf(name)), matrix);
    }
    for (const json& test : g.expected("cases")) {
      const std::string mode = test.at("q_mode");
      const Tensor q = mode == "fixed" ? torch::full({z_o.size(0)}, test.at("q_fixed").get<double>(), z_o.options())
                                       : UncertaintyOfClipped(z_o, curvature, mode == "uncertainty_eq10_last_line");
      g.Near("q", q, test.at("q"));
      const Tensor loss = RinceLoss(DistanceMatrix(fresh, old, curvature, DistanceOf(test.at("distance"))), q,
                                    {test.at("tau").get<double>(), test.at("beta").get<double>()});
      g.Near("loss_per_sample", loss, test.at("loss_per_sample"));
      g.Near("loss_mean", loss.mean(), test.at("loss_mean"));
      g.Near("gradient", GradientOf(loss.mean(), z_n), test.at("grad_mean_wrt_z_n"));
    }
    for (const json& test : g.expected("infonce")) {
      const Tensor loss = InfoNceLoss(DistanceMatrix(fresh, old, curvature, DistanceOf(test.at("distance"))),
                                      test.at("tau").get<double>());
      g.Near("infonce_per_sample", loss, test.at("infonce_per_sample"));
      g.Near("infonce gradient", GradientOf(loss.mean(), z_n), test.at("grad_infonce_mean_wrt_z_n"));
    }
  }
}

TEST_P(GoldenLosses, EntailmentWithGradients) {
  const auto files = FilesOf("entail_grad_");
  ASSERT_FALSE(files.empty()) << GoldenFolder();
  for (const auto& path : files) {
    Golden g(path, GetParam());
    g.AllowAngles();
    const double curvature = g.in("K");
    const Tensor z_o = g.Matrix(g.in("z_o")), z_n = g.Matrix(g.in("z_n")).requires_grad_();
    const LorentzPoints old = ExpOrigin(z_o, curvature), fresh = ExpOrigin(z_n, curvature);
    const Tensor angle = ExteriorAngle(old, fresh, curvature);
    const Tensor aperture = HalfAperture(old, curvature, g.in("min_radius_eps"));
    const Tensor loss = torch::relu(angle - aperture);
    const Tensor gradient = GradientOf(loss.sum(), z_n);
    const json& pairs = g.expected("pairs");
    for (size_t i = 0; i < pairs.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i);
      if (g.Skips(z_o[row]) || g.Skips(z_n[row])) continue;
      g.Near("ext_angle", angle[row], pairs[i].at("ext_angle"));
      g.Near("half_aperture", aperture[row], pairs[i].at("half_aperture"));
      g.Near("loss", loss[row], pairs[i].at("loss"));
      g.Near("grad_z_n", gradient[row], pairs[i].at("grad_z_n"));
    }
    g.Near("mean_loss", loss.mean(), g.expected("mean_loss"));
  }
}

TEST_P(GoldenLosses, LorentzMlrWithGradients) {
  const auto files = FilesOf("lorentz_mlr_");
  ASSERT_FALSE(files.empty()) << GoldenFolder();
  for (const auto& path : files) {
    Golden g(path, GetParam());
    const double curvature = g.in("K");
    const Tensor z = g.Matrix(g.in("z")).requires_grad_(), a = g.Vector(g.in("a")).requires_grad_();
    const Tensor normals = g.Matrix(g.in("z_k")).requires_grad_();
    const Tensor labels = torch::tensor(g.in("y").get<std::vector<int64_t>>());
    const Tensor logits = LorentzLogits(ExpOrigin(z, curvature), a, normals, curvature);
    g.Near("logits", logits, g.expected("logits"));
    const Tensor per_sample = torch::nn::functional::cross_entropy(
        logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
    g.Near("ce_per_sample", per_sample, g.expected("ce_per_sample"));
    g.Near("ce_mean", per_sample.mean(), g.expected("ce_mean"));
    g.Near("gradient z", GradientOf(per_sample.mean(), z), g.expected("grad_ce_mean_wrt_z"));
    g.Near("gradient a", GradientOf(per_sample.mean(), a), g.expected("grad_ce_mean_wrt_a"));
    g.Near("gradient z_k", GradientOf(per_sample.mean(), normals), g.expected("grad_ce_mean_wrt_z_k"));
  }
}

TEST_P(GoldenLosses, RescaleAndClipWithGradients) {
  const auto files = FilesOf("rescale_clip_");
  ASSERT_FALSE(files.empty()) << GoldenFolder();
  for (const auto& path : files) {
    Golden g(path, GetParam());
    const Tensor upstream = g.Matrix(g.in("upstream"));
    for (double zeta : g.in("zetas").get<std::vector<double>>()) {
      const Tensor v = g.Matrix(g.in("v")).requires_grad_();
      const Tensor z = ClipNorm(v * (1.0 / std::sqrt(g.in("d").get<double>())), zeta);
      (z * upstream).sum().backward();
      char key[32];
      std::snprintf(key, sizeof(key), "zeta%.1f", zeta);
      const json& expected = g.expected(key);
      g.Near("z", z, expected.at("z"));
      for (int64_t i = 0; i < v.size(0); ++i) {
        if (i == 5) continue;  // sits on the kink: its value only
        g.Near("vjp", v.grad()[i], expected.at("vjp_wrt_v")[static_cast<size_t>(i)]);
      }
    }
  }
}

}  // namespace
}  // namespace lightcone
