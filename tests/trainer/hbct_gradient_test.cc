// The gradient of the compatibility loss against finite differences in float64, under every switch; and float32 at the
// places where naive forms give NaN.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

struct Case {
  std::string name;
  std::function<void(HbctConfig&)> change;
  double curvature = 1.0;
};

class HbctGradient : public testing::TestWithParam<Case> {};

constexpr double kOldClip = 1.0, kNewClip = 1.2;

Tensor LossOf(const HbctConfig& config, double curvature, const Tensor& z_new, const Tensor& z_old,
              const Tensor& labels) {
  const Embedded fresh = EmbedPoints(z_new, true, curvature, kNewClip);
  const Embedded old = EmbedPoints(z_old, true, curvature, kOldClip);
  return HbctCompatibility(config, curvature, {fresh, old}, labels).total;
}

TEST_P(HbctGradient, AgreesWithFiniteDifferences) {
  const int64_t n = 5, d = 4;
  torch::Generator generator = at::detail::createCPUGenerator(11);
  const auto options = torch::dtype(torch::kFloat64);
  const Tensor z_old = torch::empty({n, d}, options).normal_(0, 0.5, generator);
  const Tensor z_new = z_old + torch::empty({n, d}, options).normal_(0, 0.4, generator);  // some inside, some clipped
  const Tensor labels = torch::tensor(std::vector<int64_t>{0, 1, 0, 2, 1});
  HbctConfig config;
  GetParam().change(config);
  const double curvature = GetParam().curvature;

  Tensor z = z_new.clone().requires_grad_();
  LossOf(config, curvature, z, z_old, labels).backward();
  const Tensor gradient = z.grad();
  torch::NoGradGuard no_grad;
  const double step = 1e-6;
  for (int64_t i = 0; i < n * d; ++i) {
    Tensor plus = z_new.clone(), minus = z_new.clone();
    plus.view({-1})[i] += step;
    minus.view({-1})[i] -= step;
    const double difference = (LossOf(config, curvature, plus, z_old, labels).item<double>() -
                               LossOf(config, curvature, minus, z_old, labels).item<double>()) /
                              (2 * step);
    EXPECT_NEAR(gradient.view({-1})[i].item<double>(), difference, 1e-6 * (1 + std::abs(difference))) << i;
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"Default", [](HbctConfig&) {}},
      {"WithoutEntailment", [](HbctConfig& c) { c.entailment = false; }},
      {"EntailmentOnly", [](HbctConfig& c) { c.contrast = "none"; }},
      {"WideCones", [](HbctConfig& c) { c.epsilon = 0.4; }},
      {"InfoNce", [](HbctConfig& c) { c.contrast = "infonce"; }},
      {"MeanDistortion", [](HbctConfig& c) { c.contrast = "distance"; }},
      {"FixedQ", [](HbctConfig& c) { c.q_mode = "fixed"; }},
      {"TinyFixedQ", [](HbctConfig& c) { c.q_mode = "fixed", c.q_fixed = 1e-6; }},
      {"ThirdLineOfEquation10", [](HbctConfig& c) { c.uncertainty = "paper-line3"; }, 0.1},
      {"MaskedSameClass", [](HbctConfig& c) { c.mask_same_class = true; }},
      {"MaskedInfoNce", [](HbctConfig& c) { c.mask_same_class = true, c.contrast = "infonce"; }},
      {"TauAndBeta", [](HbctConfig& c) { c.tau = 1.0, c.beta = 1.0; }},
  };
  for (const char* distance : {"geodesic", "inner", "squared"}) {
    for (double curvature : {0.1, 1.5}) {
      cases.push_back({std::string(distance) + (curvature < 1 ? "Flat" : "Curved"),
                       [distance](HbctConfig& c) { c.distance = distance; }, curvature});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Switches, HbctGradient, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

// Degenerate pairs: old and new embeddings before their clips.
struct DegeneratePairs {
  Tensor z_old = torch::zeros({8, 8}), z_new = torch::zeros({8, 8});

  DegeneratePairs() {
    z_old[1][0] = 0.5, z_new[1][0] = 0.5;            // coincident
    z_old[2][0] = 0.5, z_new[2][0] = 0.9;            // outward on the same ray: inside the cone
    z_old[3][0] = 0.5, z_new[3][0] = -1e6;           // opposite, far beyond the clip
    z_old[4][0] = 1e-6, z_new[4][1] = 1e-6;          // beside the origin
    z_old[5][0] = 3.0, z_new[5][0] = 0.2;            // inward on the same ray: angle pi
    z_old[6][0] = kOldClip, z_new[6][0] = kNewClip;  // both at their clips
    z_old[7][1] = kOldClip, z_new[7][1] = 10 * kNewClip;
  }
};

void ExpectFiniteOnDegeneratePairs(const HbctConfig& config, double curvature, bool learnt) {
  const DegeneratePairs pairs;
  HeadOptions options;
  options.learn_curvature = learnt;
  const Classifier head(5, 8, /*lorentz=*/true, curvature, /*scale=*/1.0, /*seed=*/1, options);
  // All pairs and only one, of one class.
  for (const auto& [first, rows] : {std::pair{0, 8}, {0, 1}, {1, 1}, {3, 1}, {6, 1}, {7, 1}}) {
    SCOPED_TRACE(testing::Message() << first << " " << rows);
    Tensor z = pairs.z_new.narrow(0, first, rows).clone().requires_grad_();
    const Embedded old = EmbedPoints(pairs.z_old.narrow(0, first, rows), true, curvature, kOldClip);
    const Tensor labels = torch::zeros({rows}, torch::kInt64);
    const Embedded fresh = head.Embed(z, kNewClip);
    const Tensor loss = HbctCompatibility(config, curvature, {fresh, old}, labels).total;
    loss.backward();
    EXPECT_TRUE(torch::isfinite(loss).item<bool>());
    EXPECT_TRUE(torch::isfinite(z.grad()).all().item<bool>());
    if (!learnt) continue;
    Tensor log_k = head.named_parameters()["log_curvature"];
    EXPECT_TRUE(torch::isfinite(log_k.grad()).item<bool>());
    log_k.mutable_grad() = Tensor();
  }
}

TEST(HbctGradientFloat32, IsFiniteAtTheOriginAtCoincidenceOnTheRayAtTheClipAndFarBeyondIt) {
  for (const char* contrast : {"rince", "infonce", "distance"}) {
    for (const char* distance : {"geodesic", "inner", "squared"}) {
      for (const double curvature : {0.1, 1.0, 1.5}) {
        for (const bool masked : {false, true}) {
          for (const bool learnt : {false, true}) {
            SCOPED_TRACE(testing::Message()
                         << contrast << " " << distance << " K = " << curvature << " " << masked << learnt);
            HbctConfig config;
            config.contrast = contrast;
            config.distance = distance;
            config.mask_same_class = masked;
            // 1 - tanh(k |z|)/k falls below 0 at this K; q is then its lower clamp.
            if (curvature < 1) config.uncertainty = "paper-line3";
            ExpectFiniteOnDegeneratePairs(config, curvature, learnt);
          }
        }
      }
    }
  }
}

TEST(HbctGradientFloat32, IsFiniteAtOneTenthOfTheCurvatureWithTheFirstLineOfEquation10) {
  ExpectFiniteOnDegeneratePairs({}, 0.1, /*learnt=*/false);
}

TEST(HbctGradientFloat32, OfTheClassifierIsFiniteAtTheOrigin) {
  const Classifier classifier(5, 8, /*lorentz=*/true, 1.0, /*scale=*/1.0, /*seed=*/1);
  Tensor z = torch::zeros({2, 8}).requires_grad_();
  classifier.Loss(EmbedPoints(z, true, 1.0, 1.0), torch::tensor(std::vector<int64_t>{0, 4})).backward();
  EXPECT_TRUE(torch::isfinite(z.grad()).all().item<bool>());
  EXPECT_GT(z.grad().abs().max().item<double>(), 0);
}

TEST(Classifier, IsScaledInItsNormalsAndInLorentzSpaceOnly) {
  const auto weights = [](bool lorentz, double scale) {
    return Classifier(5, 8, lorentz, 1.0, scale, /*seed=*/1).named_parameters();
  };
  EXPECT_TRUE(torch::allclose(weights(true, 3.0)["weight"], weights(true, 1.0)["weight"] * 3.0));
  EXPECT_TRUE(torch::equal(weights(true, 3.0)["offset"], weights(true, 1.0)["offset"]));
  EXPECT_TRUE(torch::equal(weights(false, 3.0)["weight"], weights(false, 1.0)["weight"]));
}

TEST(Classifier, NormalsTurnTowardsGivenDirectionsAndKeepTheirNorms) {
  Classifier classifier(3, 4, /*lorentz=*/true, 1.0, /*scale=*/5.0, /*seed=*/1);
  const Tensor before = classifier.named_parameters()["weight"].detach().clone();
  const Tensor directions =
      torch::tensor({{0.0, 2.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}, {-3.0, 0.0, 0.0, 4.0}}, torch::kFloat32);
  classifier.PointNormals(directions);
  const Tensor after = classifier.named_parameters()["weight"].detach();
  EXPECT_TRUE(torch::allclose(after.norm(2, 1), before.norm(2, 1)));
  EXPECT_TRUE(torch::allclose(after[0] / after[0].norm(), directions[0] / 2.0));
  EXPECT_TRUE(torch::equal(after[1], before[1])) << "a class without a direction";
  EXPECT_TRUE(torch::allclose(after[2] / after[2].norm(), directions[2] / 5.0));
}

TEST(HbctWeight, StaysOrFallsInALineToZero) {
  HbctConfig config;
  config.lambda = 0.4;
  EXPECT_EQ(HbctWeight(config, 0), 0.4);
  EXPECT_EQ(HbctWeight(config, 0.99), 0.4);
  config.lambda_until = 0.5;
  EXPECT_EQ(HbctWeight(config, 0), 0.4);
  EXPECT_DOUBLE_EQ(HbctWeight(config, 0.25), 0.2);
  EXPECT_EQ(HbctWeight(config, 0.5), 0);
  EXPECT_EQ(HbctWeight(config, 0.99), 0);
}

}  // namespace
}  // namespace lightcone
