// The losses of MixBCT, BT2 and HypMix: gradients against differences, degenerate batches, and their identities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/trainer/finite_differences_torch.h"
#include "trainer/losses/bt2_torch.h"
#include "trainer/losses/hypmix_torch.h"
#include "trainer/losses/margin_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using torch::Tensor;

Tensor Drawn(std::vector<int64_t> sizes, uint64_t seed, torch::ScalarType type = torch::kFloat64) {
  torch::Generator generator = at::detail::createCPUGenerator(seed);
  return torch::empty(sizes, torch::kFloat64).normal_(0, 1, generator).to(type);
}

Tensor Labels(const std::vector<int64_t>& labels) { return torch::tensor(labels, torch::kInt64); }

// MixBCT.

ScalarLoss MixedArcFace(const Tensor& old, const Tensor& weight, const Tensor& labels,
                        const std::vector<int64_t>& replaced) {
  return [=](const Tensor& z) {
    const Tensor scores = CosineScores(MixRows(z, old, replaced), weight);
    return HeadLossOf(scores, labels, {HeadLoss::kArcFace, /*scale=*/4, /*margin=*/0.5}).mean();
  };
}

TEST(Mixbct, GradientAgreesWithDifferencesAndReplacedRowsHaveNone) {
  const Tensor z = Drawn({5, 4}, 1), old = Drawn({5, 4}, 2), weight = Drawn({3, 4}, 3);
  const ScalarLoss loss = MixedArcFace(old, weight, Labels({0, 2, 1, 0, 2}), {1, 4});
  ExpectGradientOfDifferences(loss, z);
  Tensor leaf = z.clone().requires_grad_();
  loss(leaf).backward();
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(leaf.grad()[i].abs().sum().item<double>() == 0, i == 1 || i == 4) << i;
}

TEST(Mixbct, DegenerateBatchesAreFinite) {
  const Tensor weight = Drawn({3, 4}, 3, torch::kFloat32);
  for (const float size : {0.0f, 1e-6f, 1.0f, 1e6f}) {
    const Tensor z = torch::full({3, 4}, size), old = torch::full({3, 4}, size);
    for (const std::vector<int64_t>& replaced : std::vector<std::vector<int64_t>>{{}, {1}, {0, 1, 2}}) {
      ExpectFiniteWithGradient(MixedArcFace(old, weight, Labels({1, 1, 1}), replaced), z);
    }
    ExpectFiniteWithGradient(MixedArcFace(old.narrow(0, 0, 1), weight, Labels({2}), {}), z.narrow(0, 0, 1));
  }
}

TEST(Mixbct, DenoisingKeepsNineTenthsOfEachClassInAnyOrder) {
  const std::vector<int64_t> sizes = {1, 9, 10, 11, 29, 0, 20};
  std::vector<int64_t> labels;
  for (size_t c = 0; c < sizes.size(); ++c)
    labels.insert(labels.end(), static_cast<size_t>(sizes[c]), static_cast<int64_t>(c));
  const int64_t n = static_cast<int64_t>(labels.size());
  const Tensor features = Drawn({n, 6}, 4, torch::kFloat32), y = Labels(labels);
  const Tensor keep = DenoiseRows(features, y, 0.9).keep;
  const Tensor kept = torch::bincount(y.masked_select(keep), {}, 7);
  EXPECT_TRUE(kept.equal(Labels({1, 9, 9, 10, 27, 0, 18}))) << kept;  // ceil(0.9 n_c)
  torch::Generator generator = at::detail::createCPUGenerator(5);
  for (int round = 0; round < 3; ++round) {
    const Tensor order = torch::randperm(n, generator);
    const Tensor shuffled = DenoiseRows(features.index_select(0, order), y.index_select(0, order), 0.9).keep;
    EXPECT_TRUE(shuffled.equal(keep.index_select(0, order)));
  }
  EXPECT_TRUE(DenoiseRows(features, y, 1.0).keep.all().item<bool>());
}

TEST(Mixbct, DenoisingDropsTheOutlier) {
  Tensor features = torch::ones({10, 3}) + 0.01 * Drawn({10, 3}, 6, torch::kFloat32);
  features[7] = -features[7];
  const Tensor keep = DenoiseRows(features, torch::zeros({10}, torch::kInt64), 0.9).keep;
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(keep[i].item<bool>(), i != 7) << i;
}

TEST(Mixbct, DenoisingIsFiniteForZeroRowsAndColumns) {
  const DenoisedRows rows = DenoiseRows(torch::zeros({4, 3}), Labels({0, 0, 1, 1}), 0.5);
  EXPECT_TRUE(torch::isfinite(rows.distance).all().item<bool>());
  EXPECT_EQ(rows.keep.sum().item<int64_t>(), 2);
}

TEST(Mixbct, ReplacesTheGivenShareOfTheBatchOrWhatWasKept) {
  const std::vector<bool> keep = {true, false, true, true, true, false, true, true, true, true};
  const std::vector<int64_t> drawn = DrawReplaced(keep, 0.3, Rng(1));
  ASSERT_EQ(drawn.size(), 3u);
  EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
  for (int64_t row : drawn) EXPECT_TRUE(keep[static_cast<size_t>(row)]) << row;
  EXPECT_EQ(DrawReplaced(keep, 0.3, Rng(1)), drawn);
  std::vector<bool> met(10, false);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (int64_t row : DrawReplaced(keep, 0.3, Rng(seed))) met[static_cast<size_t>(row)] = true;
  }
  EXPECT_EQ(met, keep) << "every kept row is drawn by some seed";
  EXPECT_THAT(DrawReplaced(keep, 1.0, Rng(1)), ElementsAre(0, 2, 3, 4, 6, 7, 8, 9)) << "fewer are kept than asked for";
  EXPECT_THAT(DrawReplaced(keep, 0.0, Rng(1)), IsEmpty());
  EXPECT_THAT(DrawReplaced(std::vector<bool>(4, false), 0.5, Rng(1)), IsEmpty());
}

// HypMix.

std::vector<HypMixOptions> Geometries() {
  std::vector<HypMixOptions> all;
  for (const HypMixGeometry geometry :
       {HypMixGeometry::kMixed, HypMixGeometry::kSpherical, HypMixGeometry::kHyperbolic}) {
    for (const double curvature : {0.1, 1.0}) all.push_back({geometry, 0.5, 0.7, 0.4, curvature});
  }
  return all;
}

TEST(Hypmix, GradientAgreesWithDifferencesInEveryGeometry) {
  const Tensor views = Drawn({2, 4, 3}, 7);
  for (const HypMixOptions& options : Geometries()) {
    for (const Tensor& labels : {Tensor(), Labels({0, 1, 0, 2})}) {
      ExpectGradientOfDifferences([&](const Tensor& x) { return HypMixLoss(x[0], x[1], options, labels); }, views);
    }
  }
}

TEST(Hypmix, DegenerateViewsAreFinite) {
  for (HypMixOptions options : Geometries()) {
    options.tau_e = 0.05, options.tau_h = 0.2, options.lambda = 3;
    const auto loss = [&](const Tensor& x) { return HypMixLoss(x[0], x[1], options, Labels({0, 1, 2})); };
    for (const float size : {0.0f, 1e-6f, 1.0f, 1e6f}) ExpectFiniteWithGradient(loss, torch::full({2, 3, 4}, size));
    Tensor opposite = torch::ones({2, 3, 4});
    opposite[1] = -opposite[1];
    ExpectFiniteWithGradient(loss, opposite);
    const auto one_class = [&](const Tensor& x) { return HypMixLoss(x[0], x[1], options, Labels({4, 4, 4})); };
    ExpectFiniteWithGradient(one_class, Drawn({2, 3, 4}, 8, torch::kFloat32));
    const auto unlabelled = [&](const Tensor& x) { return HypMixLoss(x[0], x[1], options); };
    ExpectFiniteWithGradient(unlabelled, Drawn({2, 1, 4}, 9, torch::kFloat32));
    ExpectFiniteWithGradient(unlabelled, torch::zeros({2, 0, 4}));
    EXPECT_EQ(unlabelled(torch::zeros({2, 0, 4})).item<double>(), 0);
  }
}

TEST(Hypmix, RowsOfTheSameClassAreNoNegatives) {
  const Tensor x = Drawn({2, 3, 4}, 10);
  const HypMixOptions options;
  EXPECT_EQ(HypMixLoss(x[0], x[1], options, Labels({5, 5, 5})).item<double>(), 0);
  Tensor twins = x.clone();  // the second and third pair are of one class: near each other, but no negatives
  twins.select(1, 2).copy_(twins.select(1, 1));
  EXPECT_LT(HypMixLoss(twins[0], twins[1], options, Labels({0, 1, 1})).item<double>(),
            HypMixLoss(twins[0], twins[1], options, Labels({0, 1, 2})).item<double>());
}

TEST(Hypmix, GeometriesAreTheTermsOfTheMixture) {
  const Tensor x = Drawn({2, 4, 3}, 11);
  HypMixOptions mixed, spherical, hyperbolic;
  spherical.geometry = HypMixGeometry::kSpherical;
  hyperbolic.geometry = HypMixGeometry::kHyperbolic;
  mixed.lambda = 0;
  EXPECT_DOUBLE_EQ(HypMixLoss(x[0], x[1], mixed).item<double>(), HypMixLoss(x[0], x[1], spherical).item<double>());
  mixed.lambda = 1;
  mixed.tau_e = 1e12;  // no cosine left
  EXPECT_NEAR(HypMixLoss(x[0], x[1], mixed).item<double>(), HypMixLoss(x[0], x[1], hyperbolic).item<double>(), 1e-9);
}

TEST(Hypmix, PairsImagesOfOneClassInTheOrderOfTheBatch) {
  const ViewPairs pairs = PairsOfOneClass({3, 1, 3, 3, 2, 1, 3});
  EXPECT_THAT(pairs.first, ElementsAre(0, 1, 3));
  EXPECT_THAT(pairs.second, ElementsAre(2, 5, 6));
  EXPECT_THAT(PairsOfOneClass({1, 2, 3}).first, IsEmpty());
  EXPECT_THAT(PairsOfOneClass({}).second, IsEmpty());
}

// BT2.

struct Bt2Problem {
  Bt2Shape shape;
  Tensor phi1, free1, free2, f_weight, f_bias, labels, heads, old, base;

  Bt2Problem(const Bt2Shape& s, int64_t rows, uint64_t seed) : shape(s) {
    phi1 = Drawn({rows, s.input()}, seed);
    free1 = 0.5 * Drawn({s.new_dimension, s.new_dimension}, seed + 1);
    free2 = 0.5 * Drawn({s.old_dimension, s.old_dimension}, seed + 2);
    f_weight = Drawn({s.extra, s.input()}, seed + 3);
    f_bias = Drawn({s.extra}, seed + 4);
    labels = torch::arange(rows) % 3;
    heads = Drawn({3, s.old_dimension}, seed + 5);
    old = UnitRows(Drawn({rows, s.old_dimension}, seed + 6));
    base = UnitRows(Drawn({rows, s.new_dimension}, seed + 7));
  }
  Bt2Parts Parts() const {
    return ApplyBt2(phi1, shape, OrthogonalOf(free1, shape.cayley), OrthogonalOf(free2, shape.cayley), f_weight,
                    f_bias);
  }
  Tensor Loss() const { return Bt2Compatibility(Parts(), labels, heads, old, base, {1, 10, 5}).total; }
};

std::vector<Bt2Shape> Shapes() {
  return {{5, 5, 2, 2, false, false}, {5, 5, 2, 2, true, true}, {6, 4, 3, 1.5, false, true}, {4, 3, 1, 3, true, false}};
}

TEST(Bt2, GradientAgreesWithDifferencesForEveryInput) {
  for (const Bt2Shape& shape : Shapes()) {
    const Bt2Problem problem(shape, 4, 20);
    for (Tensor Bt2Problem::*input :
         {&Bt2Problem::phi1, &Bt2Problem::free1, &Bt2Problem::free2, &Bt2Problem::f_weight, &Bt2Problem::f_bias}) {
      const auto loss = [&](const Tensor& x) {
        Bt2Problem changed = problem;
        changed.*input = x;
        return changed.Loss();
      };
      ExpectGradientOfDifferences(loss, problem.*input);
    }
  }
}

TEST(Bt2, MatricesAreOrthogonal) {
  const Tensor free = Drawn({6, 6}, 30);
  for (const bool cayley : {false, true}) {
    const Tensor b = OrthogonalOf(free, cayley);
    EXPECT_TRUE(torch::allclose(torch::matmul(b, b.t()), torch::eye(6, torch::kFloat64), 0, 1e-12)) << cayley;
  }
}

TEST(Bt2, NormAndInnerProductsAreThoseOfTheParts) {
  for (const Bt2Shape& shape : Shapes()) {
    const Bt2Parts parts = Bt2Problem(shape, 5, 40).Parts();
    const double c2 = shape.scale * shape.scale;
    EXPECT_EQ(parts.phi_new.size(1), shape.output());
    EXPECT_TRUE(torch::allclose(parts.phi_new.square().sum(1), torch::full({5}, 1 + c2, torch::kFloat64), 0, 1e-11));
    const auto products = [](const Tensor& x) { return torch::matmul(x, x.t()); };
    EXPECT_TRUE(torch::allclose(products(parts.phi_new), products(parts.phi2) + c2 * products(parts.phi3), 0, 1e-11));
    EXPECT_TRUE(parts.phi5.equal(parts.phi_new.narrow(1, 0, shape.old_dimension)));
  }
}

TEST(Bt2, DegenerateBatchesAreFinite) {
  for (const Bt2Shape& shape : Shapes()) {
    for (const double size : {0.0, 1e-6, 1.0, 1e6}) {
      for (const int64_t rows : {1, 3}) {
        Bt2Problem problem(shape, rows, 50);
        problem.labels = torch::ones({rows}, torch::kInt64);  // one class
        for (Tensor Bt2Problem::*input :
             {&Bt2Problem::free1, &Bt2Problem::free2, &Bt2Problem::f_weight, &Bt2Problem::f_bias, &Bt2Problem::heads,
              &Bt2Problem::old, &Bt2Problem::base}) {
          problem.*input = (problem.*input).to(torch::kFloat32);
        }
        const auto loss = [&](const Tensor& x) {
          Bt2Problem changed = problem;
          changed.phi1 = x;
          return changed.Loss();
        };
        ExpectFiniteWithGradient(loss, torch::full({rows, shape.input()}, size, torch::kFloat32));
      }
    }
  }
}

TEST(Bt2, LossesAreZeroWhereEverythingAgrees) {
  const Bt2Problem problem({5, 5, 2, 2, false, true}, 4, 60);
  const Bt2Parts parts = problem.Parts();
  const Bt2Losses losses =
      Bt2Compatibility(parts, problem.labels, problem.heads, UnitRows(parts.phi5), parts.phi3, {1, 0, 5});
  EXPECT_NEAR(losses.old.item<double>(), 0, 1e-12);
  EXPECT_NEAR(losses.base_model.item<double>(), 0, 1e-12);
  EXPECT_NEAR(losses.total.item<double>(), 0, 1e-11);
  EXPECT_FALSE(Bt2Compatibility(parts, problem.labels, problem.heads, problem.old, {}, {}).base_model.defined());
}

TEST(Bt2, TheModuleStartsFromDrawnOrthogonalBasesAndFreezesToTheSameMap) {
  const Bt2Shape shape{6, 5, 3, 2, false, true};
  Bt2Transform transform(shape, 1);
  const Tensor phi1 = Drawn({4, shape.input()}, 70, torch::kFloat32);
  for (const torch::Tensor& buffer : transform.buffers()) {
    const Tensor eye = torch::eye(buffer.size(0));
    EXPECT_TRUE(torch::allclose(torch::matmul(buffer, buffer.t()), eye, 0, 1e-5));
    EXPECT_FALSE(torch::allclose(buffer, eye, 0, 0.1));
  }
  EXPECT_FALSE(Bt2Transform(shape, 2).Apply(phi1).phi_new.allclose(transform.Apply(phi1).phi_new, 0, 0.1));
  {
    torch::NoGradGuard no_grad;
    for (Tensor& parameter : transform.parameters()) parameter.add_(0.1);
  }
  const auto frozen = transform.Frozen();
  const Tensor before = transform.Apply(phi1).phi_new.detach().clone();
  EXPECT_TRUE(frozen(phi1).allclose(before, 0, 1e-6));
  EXPECT_FALSE(frozen(phi1).requires_grad());
  torch::NoGradGuard no_grad;
  for (Tensor& parameter : transform.parameters()) parameter.add_(0.1);
  EXPECT_TRUE(frozen(phi1).allclose(before, 0, 1e-6)) << "later steps do not change it";
}

}  // namespace
}  // namespace lightcone
