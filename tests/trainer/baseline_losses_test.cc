// Every loss of the Euclidean baselines and of the heads: gradients against finite differences in float64; finite value
// and gradient in float32 on degenerate batches; and what each of them is for.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/finite_differences_torch.h"
#include "trainer/losses/adversarial_torch.h"
#include "trainer/losses/classwise_torch.h"
#include "trainer/losses/margin_torch.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/losses/pairwise_torch.h"
#include "trainer/methods/classifier_torch.h"
#include "trainer/methods/method_torch.h"
#include "trainer/old_head_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kDimension = 4, kClasses = 3;
constexpr double kClip = 2;  // some of the drawn rows lie inside, some beyond

Tensor Labels(const std::vector<int64_t>& labels) { return torch::tensor(labels, torch::kInt64); }

// The same numbers whatever the type.
Tensor Drawn(torch::IntArrayRef shape, uint64_t seed, torch::ScalarType type) {
  torch::Generator generator = at::detail::createCPUGenerator(seed);
  return torch::empty(shape, torch::kFloat64).normal_(0, 1, generator).to(type);
}

struct Case {
  std::string name;
  std::function<Tensor(const Tensor& z, const Tensor& old, const Tensor& labels)> loss;
};

Case Head(const std::string& name, HeadLossOptions options) {
  return {name, [options](const Tensor& z, const Tensor&, const Tensor& labels) {
            const Tensor weight = Drawn({kClasses, kDimension}, 3, z.scalar_type());
            const Tensor scores = IsAngular(options.loss) ? CosineScores(z, weight) : torch::matmul(z, weight.t());
            return HeadLossOf(scores, labels, options).mean();
          }};
}

struct LorentzHeadCase {
  HeadLoss loss = HeadLoss::kSoftmax;
  double curvature = 1;
  bool learnt = false;
};

// The head that trainings in Lorentz space have, in the type of `like`.
std::unique_ptr<Classifier> LorentzHead(const LorentzHeadCase& c, const Tensor& like) {
  HeadOptions options;
  options.loss.loss = c.loss;
  options.learn_curvature = c.learnt;
  auto head = std::make_unique<Classifier>(kClasses, kDimension, /*lorentz=*/true, c.curvature, /*scale=*/3.0,
                                           /*seed=*/7, options);
  head->to(like.scalar_type());
  return head;
}

Case LorentzCase(const std::string& name, const LorentzHeadCase& c) {
  return {name, [c](const Tensor& z, const Tensor&, const Tensor& labels) {
            const std::unique_ptr<Classifier> head = LorentzHead(c, z);
            return head->Loss(head->Embed(z, kClip), labels);
          }};
}

// NCCL's second loss, with old embeddings of this batch alone in its queue.
Case LogitNeighbours(const std::string& name, HeadLoss loss) {
  return {name, [loss](const Tensor& z, const Tensor& old, const Tensor& labels) {
            Classifier head(kClasses, kDimension, /*lorentz=*/false, 1.0, 1.0, /*seed=*/7, {{loss}, false});
            head.to(z.scalar_type());
            const Tensor unit = UnitRows(old);
            const Tensor cosines = head.LogitCosines(head.Embed(z, kClip), head.Embed(old, kClip));
            return NeighbourLoss(cosines * 2.0, (torch::matmul(unit, unit.t()) + 1) / 2, labels, labels);
          }};
}

Case OldHeadCase(const std::string& name, HeadLossOptions options) {
  return {name, [options](const Tensor& z, const Tensor&, const Tensor& labels) {
            OldHead head;
            head.weight = Drawn({2, kDimension}, 4, z.scalar_type());
            head.loss = options;
            head.row_of = Labels({1, 0, -1});  // the old head knows two of the three classes
            return head.Loss(z, labels);
          }};
}

std::vector<Case> Cases() {
  using T = const Tensor&;
  return {
      {"L2Norm", [](T z, T old, T) { return L2NormLoss(z, old); }},
      {"L2Mse", [](T z, T old, T) { return L2MseLoss(z, old); }},
      {"Contra",
       [](T z, T old, T y) {
         return ContraLoss(z, old, y, {0.5, 0, false}).mean();
       }},
      {"ContraHardest",
       [](T z, T old, T y) {
         return ContraLoss(z, old, y, {0.1, 2, false}).mean();
       }},
      {"HotRefresh",
       [](T z, T old, T y) {
         return ContraLoss(z, old, y, {0.5, 0, true}).mean();
       }},
      {"HotRefreshHardest",
       [](T z, T old, T y) {
         return ContraLoss(z, old, y, {0.1, 2, true}).mean();
       }},
      {"HocRemoved", [](T z, T old, T y) { return HocLoss(z, old, y, 10, false).mean(); }},
      {"HocZeroed", [](T z, T old, T y) { return HocLoss(z, old, y, 10, true).mean(); }},
      {"Prototypes",
       [](T z, T old, T y) { return PrototypeLoss(z, ClassMeansOf(UnitRows(old), y, kClasses), y, 4).mean(); }},
      {"Neighbours",
       [](T z, T old, T y) {
         const Tensor o = UnitRows(old);
         return NeighbourLoss(torch::matmul(UnitRows(z), o.t()), (torch::matmul(o, o.t()) + 1) / 2, y, y);
       }},
      {"PointToSet",
       [](T z, T old, T y) { return PointToSetLoss(z, y, ClassBallsOf(UnitRows(old), y, kClasses), {}); }},
      {"PointToSetElastic",
       [](T z, T old, T y) {
         const Tensor elastic = Drawn({kClasses}, 5, z.scalar_type());
         return PointToSetLoss(z, y, ClassBallsOf(UnitRows(old), y, kClasses), elastic);
       }},
      {"Adversarial",
       [](T z, T old, T) {
         torch::Generator generator = at::detail::createCPUGenerator(6);
         Discriminator discriminator(kDimension, generator);
         discriminator.to(z.scalar_type());
         return AdversarialLoss(discriminator, z, old, /*alpha=*/-1);  // turned round twice: the gradient itself
       }},
      LogitNeighbours("NeighboursOfLogits", HeadLoss::kSoftmax),
      LogitNeighbours("NeighboursOfAngles", HeadLoss::kArcFace),
      LorentzCase("LorentzMlrFlat", {HeadLoss::kSoftmax, 0.1}),
      LorentzCase("LorentzMlr", {HeadLoss::kSoftmax, 1}),
      LorentzCase("LorentzMlrCurved", {HeadLoss::kSoftmax, 1.5}),
      LorentzCase("LorentzMlrLearnt", {HeadLoss::kSoftmax, 1, true}),
      LorentzCase("LorentzBceFlat", {HeadLoss::kBce, 0.1}),
      LorentzCase("LorentzBce", {HeadLoss::kBce, 1}),
      LorentzCase("LorentzBceCurved", {HeadLoss::kBce, 1.5}),
      LorentzCase("LorentzBceLearnt", {HeadLoss::kBce, 1, true}),
      Head("Softmax", {HeadLoss::kSoftmax, 1, 0}),
      Head("Bce", {HeadLoss::kBce, 1, 0}),
      Head("ArcFace", {HeadLoss::kArcFace, 8, 0.5}),
      Head("CosFace", {HeadLoss::kCosFace, 8, 0.35}),
      OldHeadCase("OldSoftmaxHead", {HeadLoss::kSoftmax, 1, 0}),
      OldHeadCase("OldArcFaceHead", {HeadLoss::kArcFace, 8, 0.5}),
  };
}

class BaselineLoss : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Of, BaselineLoss, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST_P(BaselineLoss, GradientAgreesWithFiniteDifferences) {
  const Tensor old = Drawn({6, kDimension}, 1, torch::kFloat64);
  const Tensor z = old + 0.7 * Drawn({6, kDimension}, 2, torch::kFloat64);
  const Tensor labels = Labels({0, 1, 0, 2, 1, 0});
  ExpectGradientOfDifferences([&](const Tensor& x) { return GetParam().loss(x, old, labels); }, z);
}

TEST_P(BaselineLoss, IsFiniteOnDegenerateBatches) {
  const auto check = [&](const std::string& what, const Tensor& z, const Tensor& old, const Tensor& labels) {
    Tensor leaf = z.clone().requires_grad_();
    const Tensor loss = GetParam().loss(leaf, old, labels);
    ASSERT_EQ(loss.dim(), 0) << what;
    EXPECT_TRUE(torch::isfinite(loss).item<bool>()) << what;
    if (!loss.requires_grad()) return;
    loss.backward();
    EXPECT_TRUE(torch::isfinite(leaf.grad()).all().item<bool>()) << what;
  };
  const Tensor some = Drawn({4, kDimension}, 1, torch::kFloat32), others = Drawn({4, kDimension}, 2, torch::kFloat32);
  const Tensor zero = torch::zeros({4, kDimension}), mixed = Labels({0, 1, 2, 1});
  check("one class", some, others, Labels({1, 1, 1, 1}));
  check("one class that an old head never saw", some, others, Labels({2, 2, 2, 2}));
  check("one sample", some.narrow(0, 0, 1), others.narrow(0, 0, 1), Labels({0}));
  check("each new point at its old one", some, some, mixed);
  check("identical points", some[0].expand({4, kDimension}), some[0].expand({4, kDimension}), mixed);
  check("opposite points", some, -some, mixed);
  check("new points at the origin", zero, others, mixed);
  check("all points at the origin", zero, zero, mixed);
  check("points at the clip", kClip * UnitRows(some), kClip * UnitRows(others), mixed);
  check("points far out", some * 1e6, others * 1e6, mixed);
  check("points at the head's weights", Drawn({kClasses, kDimension}, 3, torch::kFloat32),
        Drawn({kClasses, kDimension}, 3, torch::kFloat32), Labels({0, 1, 2}));
}

TEST(LorentzHead, GradientsAtTheOriginAndOfItsParametersAgreeWithFiniteDifferences) {
  const Tensor z = Drawn({6, kDimension}, 1, torch::kFloat64), labels = Labels({0, 1, 0, 2, 1, 0});
  for (const HeadLoss loss : {HeadLoss::kSoftmax, HeadLoss::kBce}) {
    for (const double curvature : {0.1, 1.0, 1.5}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(loss) << ", K = " << curvature);
      const std::unique_ptr<Classifier> head = LorentzHead({loss, curvature}, z);
      const auto of_points = [&](const Tensor& x) { return head->Loss(head->Embed(x, kClip), labels); };
      ExpectGradientOfDifferences(of_points, torch::zeros_like(z));
      for (const char* name : {"weight", "offset"}) {
        Tensor parameter = head->named_parameters()[name];
        parameter.mutable_grad() = Tensor();
        of_points(z).backward();
        const Tensor gradient = parameter.grad().view({-1});
        torch::NoGradGuard no_grad;
        const double step = 1e-6;
        for (int64_t i = 0; i < parameter.numel(); ++i) {
          Tensor number = parameter.view({-1})[i];
          number += step;
          const double above = of_points(z).item<double>();
          number -= 2 * step;
          const double below = of_points(z).item<double>();
          number += step;
          EXPECT_NEAR(gradient[i].item<double>(), (above - below) / (2 * step), 1e-6) << name << " " << i;
        }
      }
    }
  }
}

TEST(ArcFace, AddsItsMarginToTheTargetsAngleAndStaysMonotonousBehindIt) {
  const HeadLossOptions plain{HeadLoss::kArcFace, 1, 0}, arc{HeadLoss::kArcFace, 1, 0.5};
  const Tensor scores = torch::tensor({{std::cos(0.7), 0.2}}, torch::kFloat64), label = Labels({0});
  const Tensor turned = torch::tensor({{std::cos(1.2), 0.2}}, torch::kFloat64);
  EXPECT_NEAR(HeadLossOf(scores, label, arc).item<double>(), HeadLossOf(turned, label, plain).item<double>(), 1e-12);
  double last = 0;
  for (double theta = 0.1; theta < 3.1; theta += 0.1) {
    const Tensor at = torch::tensor({{std::cos(theta), 0.2}}, torch::kFloat64);
    const double loss = HeadLossOf(at, label, arc).item<double>();
    EXPECT_GT(loss, last) << theta;
    last = loss;
  }
}

TEST(CosFace, TakesItsMarginOffTheTargetsCosine) {
  const Tensor scores = torch::tensor({{0.5, 0.2}}, torch::kFloat64);
  EXPECT_NEAR(HeadLossOf(scores, Labels({0}), {HeadLoss::kCosFace, 2, 0.35}).item<double>(),
              std::log1p(std::exp(2 * (0.2 - 0.15))), 1e-12);
}

TEST(Bce, IsTheSumOverTheClassesOfBinaryCrossEntropies) {
  const Tensor scores = torch::tensor({{0.5, -0.2}}, torch::kFloat64);
  EXPECT_NEAR(HeadLossOf(scores, Labels({0}), {HeadLoss::kBce, 1, 0}).item<double>(),
              std::log1p(std::exp(-0.5)) + std::log1p(std::exp(-0.2)), 1e-12);
}

TEST(Contra, CountsOnlyTheHardestNegativesWhenToldTo) {
  const Tensor z = torch::tensor({{1.0, 0.0}, {0.0, 1.0}, {0.0, -1.0}}, torch::kFloat64), y = Labels({0, 1, 2});
  // Row 0 has cosine 0 to both others, rows 1 and 2 have 0 and -1: one negative leaves out the -1.
  const Tensor one = ContraLoss(z, z, y, {1, 1, false}), all = ContraLoss(z, z, y, {1, 0, false});
  EXPECT_NEAR(one[1].item<double>(), std::log(std::exp(1.0) + 1) - 1, 1e-12);
  EXPECT_NEAR(all[1].item<double>(), std::log(std::exp(1.0) + 1 + std::exp(-1.0)) - 1, 1e-12);
}

TEST(Hoc, KeepsTheAlignmentOfASampleWithoutNegatives) {
  const Tensor z = torch::tensor({{1.0, 0.0}, {0.0, 1.0}}, torch::kFloat64);
  EXPECT_NEAR(HocLoss(z, z, Labels({1, 1}), 10, false)[0].item<double>(), -10, 1e-12);
}

// 2 x 2 directions of a class near (1, 0), and one old outlier that the new model puts far from the rest, too.
struct Outlier {
  Tensor fresh = UnitRows(torch::tensor({{1.0, 0.1}, {1.0, 0.0}, {1.0, -0.1}, {-1.0, 0.3}}, torch::kFloat64));
  Tensor old = UnitRows(torch::tensor({{1.0, 0.2}, {1.0, 0.0}, {1.0, -0.2}, {0.0, 1.0}}, torch::kFloat64));
  Tensor labels = Labels({0, 0, 0, 0});
};

TEST(RefinedPrototypes, WeighOutliersLessThanTheMeanDoes) {
  const Outlier o;
  const Tensor mean = ClassMeansOf(o.old, o.labels, 1)[0];
  const Tensor refined = RefinedPrototypes(o.fresh, o.old, o.labels, 1, {0.9, 0.05})[0];
  EXPECT_GT(mean[1].item<double>(), 0.2);
  EXPECT_LT(refined[1].item<double>(), 0.5 * mean[1].item<double>());
  // Without a walk there is nothing to refine.
  EXPECT_TRUE(torch::allclose(RefinedPrototypes(o.fresh, o.old, o.labels, 1, {0, 0.05})[0], mean));
}

TEST(RefinedPrototypes, OfOneImageIsItsFeatureAndOfNoneIsZero) {
  const Tensor old = torch::tensor({{0.6, 0.8}, {1.0, 0.0}}, torch::kFloat64);
  const Tensor refined = RefinedPrototypes(old, old, Labels({2, 0}), 3, {0.9, 0.05});
  EXPECT_TRUE(torch::allclose(refined[2], old[0]));
  EXPECT_TRUE(torch::equal(refined[1], torch::zeros({2}, torch::kFloat64)));
}

TEST(CredibleRows, LeaveOutFeaturesBetweenTheClasses) {
  const Tensor features = UnitRows(torch::tensor({{1.0, 0.0},
                                                  {1.0, 0.02},
                                                  {1.0, -0.02},
                                                  {1.0, 1.2},
                                                  {0.0, 1.0},
                                                  {0.02, 1.0},
                                                  {-0.02, 1.0},
                                                  {0.03, 1.0},
                                                  {1.0, 0.03},
                                                  {1.0, -0.03}},
                                                 torch::kFloat64));
  const Tensor labels = Labels({0, 0, 0, 0, 1, 1, 1, 1, 0, 0});
  const Tensor credible = CredibleRows(features, labels, 2, 0.5);
  EXPECT_FALSE(credible[3].item<bool>());
  EXPECT_EQ(credible.sum().item<int64_t>(), 9);
  EXPECT_TRUE(CredibleRows(features, labels, 2, 1).all().item<bool>());
}

TEST(NeighbourLoss, LooksAtTheQueuesEntriesOfTheClassAndOfAnEmptyQueueIsZero) {
  const Tensor s = torch::tensor({{2.0, 1.0}, {0.0, 3.0}}, torch::kFloat64), w = torch::ones_like(s) * 0.5;
  // Row 0 meets its class at the first entry, row 1 nowhere.
  EXPECT_NEAR(NeighbourLoss(s, w, Labels({4, 5}), Labels({4, 6})).item<double>(),
              0.5 * 0.5 * std::log1p(std::exp(-1.0)), 1e-12);
  EXPECT_EQ(NeighbourLoss(torch::zeros({2, 0}), torch::zeros({2, 0}), Labels({4, 5}), Labels({})).item<double>(), 0);
}

TEST(ClassBalls, LeaveOutliersOutOfTheRadius) {
  Tensor features = torch::zeros({21, 2}, torch::kFloat64);
  for (int i = 0; i < 20; ++i) {
    const double angle = 0.1 * std::cos(i * 0.7);
    features[i][0] = std::cos(angle);
    features[i][1] = std::sin(angle);
  }
  features[20][1] = 1.0;
  const ClassBalls balls = ClassBallsOf(features, torch::zeros({21}, torch::kInt64), 2);
  EXPECT_LT(balls.radii[0].item<double>(), 0.2);
  EXPECT_GT(balls.radii[0].item<double>(), 0.05);
  EXPECT_EQ(balls.radii[1].item<double>(), 0) << "a class without images";
  EXPECT_TRUE(torch::allclose(balls.centres[0], features.mean(0)));
}

TEST(PointToSet, PunishesOnlyWhatLiesBeyondTheBoundary) {
  const ClassBalls balls{torch::tensor({{0.5, 0.0}}, torch::kFloat64), torch::tensor({0.6}, torch::kFloat64)};
  const Tensor z = torch::tensor({{3.0, 0.0}, {-2.0, 0.0}}, torch::kFloat64), labels = Labels({0, 0});
  EXPECT_NEAR(PointToSetLoss(z, labels, balls, {}).item<double>(), 1.5 - 0.6, 1e-12);
  // w = 0: the boundary moves half of the way to 1.
  const Tensor elastic = torch::zeros({1}, torch::kFloat64);
  EXPECT_NEAR(PointToSetLoss(z, labels, balls, elastic).item<double>(), 1.5 - 0.8, 1e-12);
  EXPECT_EQ(PointToSetLoss(z.narrow(0, 0, 1), labels.narrow(0, 0, 1), balls, {}).item<double>(), 0);
}

TEST(ReverseGradient, PassesTheValueAndTurnsTheGradient) {
  Tensor x = torch::tensor({1.5, -2.0}, torch::kFloat64).requires_grad_();
  const Tensor y = ReverseGradient(x, 0.25);
  EXPECT_TRUE(torch::allclose(y, x));
  y.sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad(), torch::full({2}, -0.25, torch::kFloat64)));
}

TEST(LearntCurvature, GradientOfTheHeadAndTheContrastAgreesWithFiniteDifferences) {
  HeadOptions options;
  options.learn_curvature = true;
  Classifier classifier(kClasses, kDimension, /*lorentz=*/true, /*curvature=*/0.8, 1.0, /*seed=*/1, options);
  classifier.to(torch::kFloat64);
  Tensor log_k = classifier.named_parameters()["log_curvature"];
  const Tensor z = 0.6 * Drawn({5, kDimension}, 1, torch::kFloat64), labels = Labels({0, 1, 0, 2, 1});
  const Embedded old = EmbedPoints(0.6 * Drawn({5, kDimension}, 2, torch::kFloat64), true, 0.8, 1.0);
  for (const char* distance : {"geodesic", "inner", "squared"}) {
    HbctConfig config;
    config.entailment = false;  // the aperture is held constant
    config.distance = distance;
    const auto loss = [&](const Tensor& x) {
      const Embedded fresh = classifier.Embed(x, 1.2);
      return classifier.Loss(fresh, labels) + HbctCompatibility(config, 0.8, {fresh, old}, labels).total;
    };
    ExpectGradientOfDifferences(loss, z);
    log_k.mutable_grad() = Tensor();
    loss(z).backward();
    const double gradient = log_k.grad().item<double>(), step = 1e-6;
    torch::NoGradGuard no_grad;
    log_k += step;
    const double above = loss(z).item<double>();
    log_k -= 2 * step;
    const double below = loss(z).item<double>();
    log_k += step;
    EXPECT_NEAR(gradient, (above - below) / (2 * step), 1e-6 * (1 + std::abs(gradient))) << distance;
  }
}

TEST(LearntCurvature, AtItsStartIsTheFixedOne) {
  HeadOptions options;
  options.learn_curvature = true;
  const Classifier fixed(kClasses, kDimension, true, 0.5, 1.0, 1);
  const Classifier learnt(kClasses, kDimension, true, 0.5, 1.0, 1, options);
  const Tensor z = Drawn({5, kDimension}, 1, torch::kFloat32), z_old = Drawn({5, kDimension}, 2, torch::kFloat32);
  const Tensor labels = Labels({0, 1, 0, 2, 1});
  const Embedded a = fixed.Embed(z, 1.2), b = learnt.Embed(z, 1.2), old = EmbedPoints(z_old, true, 0.5, 1.0);
  EXPECT_TRUE(torch::allclose(fixed.Logits(a), learnt.Logits(b), 1e-4, 1e-5));
  for (const char* distance : {"geodesic", "inner", "squared"}) {
    HbctConfig config;
    config.distance = distance;
    EXPECT_NEAR(HbctCompatibility(config, 0.5, {a, old}, labels).total.item<double>(),
                HbctCompatibility(config, 0.5, {b, old}, labels).total.item<double>(), 2e-3)
        << distance;
  }
}

TEST(LearntCurvature, StaysWithinAFactorOfTenOfItsStart) {
  HeadOptions options;
  options.learn_curvature = true;
  Classifier classifier(kClasses, kDimension, true, 0.5, 1.0, 1, options);
  EXPECT_NEAR(classifier.curvature(), 0.5, 1e-6);
  {
    torch::NoGradGuard no_grad;
    classifier.named_parameters()["log_curvature"].fill_(7.0);
  }
  classifier.LimitCurvature();
  EXPECT_NEAR(classifier.curvature(), 5.0, 1e-5);
}

TEST(Classifier, CosinesOfLogitsAreThoseOfTheLogitsThemselvesInValueAndGradient) {
  for (const bool lorentz : {false, true}) {
    for (const HeadLoss loss : {HeadLoss::kSoftmax, HeadLoss::kArcFace, HeadLoss::kBce}) {
      if (lorentz && IsAngular(loss)) continue;
      const Classifier head(7, 5, lorentz, /*curvature=*/1.0, /*scale=*/1.0, /*seed=*/3, {{loss}, false});
      const Tensor rows = Drawn({6, 5}, 2, torch::kFloat32);
      const auto gradients = [&](const std::function<Tensor(const Tensor&)>& cosines, Tensor* value) {
        const Tensor z = Drawn({4, 5}, 1, torch::kFloat32).requires_grad_();
        *value = cosines(z);
        const Tensor weight = head.named_parameters()["weight"];
        return torch::autograd::grad({(*value * Drawn({4, 6}, 4, torch::kFloat32)).sum()}, {z, weight});
      };
      Tensor fast, full;
      const auto of_fast = gradients(
          [&](const Tensor& z) { return head.LogitCosines(head.Embed(z, 1.2), head.Embed(rows, 1.2)); }, &fast);
      const auto of_full = gradients(
          [&](const Tensor& z) {
            return torch::matmul(UnitRows(head.Logits(head.Embed(z, 1.2))),
                                 UnitRows(head.Logits(head.Embed(rows, 1.2)).detach()).t());
          },
          &full);
      const std::string at = (lorentz ? "lorentz " : "linear ") + std::to_string(static_cast<int>(loss));
      EXPECT_TRUE(torch::allclose(fast, full, 1e-4, 1e-5)) << at;
      for (size_t i = 0; i < 2; ++i)
        EXPECT_TRUE(torch::allclose(of_fast[i], of_full[i], 1e-4, 1e-5)) << at << ", " << i;
      EXPECT_GT(of_full[1].abs().max().item<float>(), 0.01) << at;
    }
  }
}

}  // namespace
}  // namespace lightcone
