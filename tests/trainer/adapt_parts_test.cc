// What fitting is made of: closed forms, gradients, the exported map, two legs, views.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/rng.h"
#include "base/status.h"
#include "geometry/lorentz.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/network_torch.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/tiny_set.h"
#include "tests/trainer/two_models.h"
#include "trainer/adapt/closed_form_torch.h"
#include "trainer/adapt/error_head_torch.h"
#include "trainer/adapt/item_adapter.h"
#include "trainer/adapt/losses_torch.h"
#include "trainer/adapt/mixed_gallery_torch.h"
#include "trainer/adapt/model_pairs.h"
#include "trainer/adapt/network_torch.h"

namespace lightcone {
namespace {

using testing::HasSubstr;
using torch::Tensor;

Tensor Uniform(c10::IntArrayRef shape, uint64_t seed, torch::ScalarType type = torch::kFloat64) {
  Rng rng(seed);
  Tensor values = torch::empty(shape, torch::kFloat64);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = rng.Uniform(-1, 1);
  return values.to(type);
}

double Largest(const Tensor& x) { return x.abs().max().item<double>(); }

TEST(FitRidge, FindsAnAffineMapAndDampsNoise) {
  const Tensor x = Uniform({300, 5}, 1), w = Uniform({3, 5}, 2), c = Uniform({3}, 3);
  const Tensor y = torch::matmul(x, w.t()) + c;
  const LinearMap exact = FitRidge(x, y);
  EXPECT_LT(Largest(exact.w - w), 1e-5);
  EXPECT_LT(Largest(exact.c - c), 1e-5);
  EXPECT_LT(exact.lambda, 1e-4);
  // Nothing to be found, and nearly as many inputs as rows to find it with.
  EXPECT_GE(FitRidge(Uniform({100, 60}, 5), Uniform({100, 3}, 4)).lambda, 0.1);
  const LinearMap constant = FitRidge(torch::ones({300, 5}, torch::kFloat64), y);
  EXPECT_LT(Largest(constant.w), 1e-6) << "inputs that are all equal tell nothing";
}

TEST(FitProcrustes, HasOrthonormalRowsOrColumnsAndTheBestScale) {
  const std::pair<int64_t, int64_t> shapes[] = {{5, 5}, {5, 3}, {3, 5}};
  for (const auto& [in, out] : shapes) {
    const Tensor x = Uniform({200, in}, 1), y = torch::matmul(x, Uniform({out, in}, 2).t());
    const Tensor q = FitProcrustes(x, y, /*scaled=*/false);
    const Tensor gram = out <= in ? torch::matmul(q, q.t()) : torch::matmul(q.t(), q);
    EXPECT_LT(Largest(gram - torch::eye(std::min(in, out), torch::kFloat64)), 1e-9);
    const Tensor scaled = FitProcrustes(x, y, /*scaled=*/true);
    const auto error = [&](const Tensor& map) { return (torch::matmul(x, map.t()) - y).square().sum().item<double>(); };
    EXPECT_LE(error(scaled), error(q) + 1e-9);
    EXPECT_LE(error(scaled), error(scaled * 1.01));
    EXPECT_LE(error(scaled), error(scaled * 0.99));
  }
}

TEST(FactorLowRank, IsExactWhereTheRankSufficesAndBestOverTheData) {
  const Tensor x = Uniform({300, 6}, 1) * torch::tensor({5.0, 1.0, 1.0, 1.0, 1.0, 0.01}, torch::kFloat64);
  const Tensor w = torch::matmul(Uniform({4, 2}, 2), Uniform({2, 6}, 3));
  const LowRank exact = FactorLowRank(w, x, 2);
  EXPECT_LT(Largest(torch::matmul(exact.u, exact.v.t()) - w), 1e-9);
  // Rank 1 must spend itself on the loud first input: better on the data than the plain decomposition.
  const LowRank one = FactorLowRank(w, x, 1);
  const auto [u, s, vt] = torch::linalg_svd(w, false);
  const Tensor plain = torch::matmul(u.narrow(1, 0, 1) * s.narrow(0, 0, 1), vt.narrow(0, 0, 1));
  const Tensor centred = x - x.mean(0);
  const auto error = [&](const Tensor& map) {
    return torch::matmul(centred, (map - w).t()).square().sum().item<double>();
  };
  EXPECT_LE(error(torch::matmul(one.u, one.v.t())), error(plain) + 1e-9);
}

AdaptOptions OptionsOf(AdapterDirection direction, Metric metric, int in, int out) {
  AdaptOptions options;
  options.direction = direction;
  options.source = {metric, in, 0.7, 1.0};
  options.target = {metric, out, 0.7, 1.2};
  options.rank = 2;
  options.width = 7;
  return options;
}

AdaptBatch BatchOf(int64_t in, int64_t out) {
  return {Uniform({6, in}, 5) * 0.8, Uniform({6, out}, 6) * 0.8, torch::tensor({0, 1, 0, 1, 2, 0}, torch::kInt64), 3};
}

TEST(AdaptObjective, OtherViewsOfAnItemAreNeitherNeighboursNorNegatives) {
  // Row 3 is another view of query 0's item: where it lies must not matter to the losses of query 0.
  for (const char* text : {"rel", "sup", "contra"}) {
    const AdaptObjective objective(ParseAdaptLoss(text, true).value(),
                                   OptionsOf(AdapterDirection::kItem, Metric::kLorentz, 4, 4));
    const auto loss = [&](double moved, bool views) {
      AdaptBatch batch = BatchOf(4, 4);
      batch.labels = torch::tensor({0, 1, 0, 0, 2, 0}, torch::kInt64);
      batch.queries = 1;
      if (views) batch.items = torch::tensor({7, 8, 9, 7, 10, 11}, torch::kInt64);
      batch.source[3] += moved;
      batch.target[3] += moved;
      if (std::string(text) == "contra") batch.labels = Tensor();
      return objective([](const Tensor& z) { return z; }, batch).item<double>();
    };
    EXPECT_EQ(loss(0, true), loss(0.3, true)) << text;
    EXPECT_NE(loss(0, false), loss(0.3, false)) << text;
  }
}

TEST(AdaptObjective, GradientsAgreeWithFiniteDifferences) {
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine}) {
    for (const AdapterDirection direction : {AdapterDirection::kItem, AdapterDirection::kQuery}) {
      for (const char* text : {"reg", "rel", "sup", "contra", "reg+0.5*rel+2*sup+contra"}) {
        const AdaptObjective objective(ParseAdaptLoss(text, true).value(), OptionsOf(direction, metric, 4, 3));
        const AdaptBatch batch = BatchOf(4, 3);
        Tensor w = Uniform({3, 4}, 7).set_requires_grad(true);
        const auto loss = [&](const Tensor& weights) {
          return objective([&](const Tensor& z) { return torch::matmul(z, weights.t()); }, batch);
        };
        loss(w).backward();
        constexpr double kStep = 1e-6;
        for (int64_t i = 0; i < 12; ++i) {
          Tensor up = w.detach().clone(), down = w.detach().clone();
          up.data_ptr<double>()[i] += kStep;
          down.data_ptr<double>()[i] -= kStep;
          const double slope = (loss(up) - loss(down)).item<double>() / (2 * kStep);
          EXPECT_NEAR(w.grad().contiguous().data_ptr<double>()[i], slope, 1e-5 * (1 + std::abs(slope)))
              << text << " " << MetricName(metric) << " " << AdapterDirectionName(direction) << " " << i;
        }
      }
    }
  }
}

TEST(AdaptObjective, DegenerateBatchesGiveFiniteLossesAndGradients) {
  const AdaptBatch full = BatchOf(4, 4);
  AdaptBatch one_class = full, lonely = full, identical = full, origin = full, single = full, clipped = full;
  one_class.labels = torch::zeros({6}, torch::kInt64);
  lonely.labels = torch::arange(6);
  identical.source = full.source.narrow(0, 0, 1).repeat({6, 1});
  identical.target = identical.source;
  origin.source = torch::zeros_like(full.source);
  origin.target = torch::zeros_like(full.target);
  single = {full.source.narrow(0, 0, 1), full.target.narrow(0, 0, 1), full.labels.narrow(0, 0, 1), 1};
  clipped.source = full.source * 1e3;
  clipped.target = full.target * 1e3;
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine}) {
    for (const AdapterDirection direction : {AdapterDirection::kItem, AdapterDirection::kQuery}) {
      const AdaptObjective objective(ParseAdaptLoss("reg+rel+sup+contra", true).value(),
                                     OptionsOf(direction, metric, 4, 4));
      for (const AdaptBatch& batch : {one_class, lonely, identical, origin, single, clipped}) {
        for (const torch::ScalarType type : {torch::kFloat32, torch::kFloat64}) {
          const AdaptBatch typed{batch.source.to(type), batch.target.to(type), batch.labels, batch.queries};
          Tensor w = torch::eye(4, type).set_requires_grad(true);
          const Tensor loss = objective([&](const Tensor& z) { return torch::matmul(z, w.t()); }, typed);
          loss.backward();
          EXPECT_TRUE(std::isfinite(loss.item<double>())) << MetricName(metric);
          EXPECT_TRUE(torch::isfinite(w.grad()).all().item<bool>()) << MetricName(metric);
        }
      }
    }
  }
}

TEST(MetricRowDistances, AreTheDistancesOfTheReference) {
  const Space space{Metric::kLorentz, 3, 0.7, 1.2};
  const Tensor a = Uniform({5, 3}, 1), b = Uniform({5, 3}, 2);
  const Tensor rows = MetricRowDistances(space, LiftTo(space, a), LiftTo(space, b));
  const Tensor matrix = MetricDistances(space, LiftTo(space, a), LiftTo(space, b));
  for (int64_t i = 0; i < 5; ++i) {
    const auto point = [&](const Tensor& z) {
      const double* row = z.data_ptr<double>() + i * 3;
      return lorentz::Exp0(lorentz::RescaleClip(std::vector<double>(row, row + 3), 1.0, 1.2), 0.7);
    };
    const double truth = lorentz::Geodesic(point(a), point(b), 0.7);
    EXPECT_NEAR(rows[i].item<double>(), truth, 1e-9);
    EXPECT_NEAR(matrix[i][i].item<double>(), truth, 1e-9);
  }
}

TEST(MetricDistances, OfFloatsAreRightWhereTheClipIsFarOut) {
  for (const double clip : {1.0, 4.0, 8.0, 10.0}) {
    const Space space{Metric::kLorentz, 16, 1.0, clip};
    // Neighbours beyond the clip, which are near each other where they are clipped to.
    const Tensor a = Uniform({60, 16}, 1, torch::kFloat32) * clip;
    const Tensor b = a + Uniform({60, 16}, 2, torch::kFloat32) * 0.005;
    const auto errors = [&](const auto& distances) {
      const Tensor exact = distances(LiftTo(space, a.to(torch::kFloat64)), LiftTo(space, b.to(torch::kFloat64)));
      return (distances(LiftTo(space, a), LiftTo(space, b)).to(torch::kFloat64) - exact)
          .abs()
          .mean()
          .template item<double>();
    };
    const auto matrix = [&](const MetricPoints& x, const MetricPoints& y) {
      return MetricDistances(space, x, y).diagonal();
    };
    const auto rows = [&](const MetricPoints& x, const MetricPoints& y) { return MetricRowDistances(space, x, y); };
    EXPECT_LT(errors(matrix), 0.02) << clip;
    EXPECT_LT(errors(rows), 0.02) << clip;
    EXPECT_EQ(LiftTo(space, a).space.scalar_type(), clip > 4 ? torch::kFloat64 : torch::kFloat32) << clip;
  }
}

TEST(AdaptObjective, KnowsItsLossAndGradientWhereTheClipIsFarOut) {
  for (const AdapterDirection direction : {AdapterDirection::kItem, AdapterDirection::kQuery}) {
    for (const auto& [source_clip, target_clip] : {std::pair{8.0, 8.0}, {1.0, 8.0}, {8.0, 1.0}}) {
      AdaptOptions options = OptionsOf(direction, Metric::kLorentz, 4, 4);
      options.source.clip_radius = source_clip;
      options.target.clip_radius = target_clip;
      options.source.curvature = options.target.curvature = 1;
      for (const char* text : {"reg", "rel", "sup", "contra", "reg+0.5*rel+2*sup+contra"}) {
        if (target_clip == 1 && std::string(text) != "rel") continue;  // others do not look at the source's space
        options.temperature = 1;
        const AdaptObjective objective(ParseAdaptLoss(text, true).value(), options);
        const auto value = [&](torch::ScalarType type) {
          AdaptBatch batch = BatchOf(4, 4);
          batch.source = (batch.source * 10).to(type);
          batch.target = batch.source;
          const Tensor nearly = torch::eye(4, torch::kFloat64) + Uniform({4, 4}, 7) * 1e-3;
          const Tensor w = nearly.to(type).set_requires_grad(true);
          const Tensor loss = objective([&](const Tensor& z) { return torch::matmul(z, w.t()); }, batch);
          loss.backward();
          return std::pair(loss.item<double>(), w.grad().to(torch::kFloat64));
        };
        const auto [loss, gradient] = value(torch::kFloat32);
        const auto [exact_loss, exact_gradient] = value(torch::kFloat64);
        const std::string what = StrCat(text, " ", source_clip, " to ", target_clip);
        EXPECT_NEAR(loss, exact_loss, 2e-3 * (1 + std::abs(exact_loss))) << what;
        EXPECT_LT(Largest(gradient - exact_gradient), 2e-3 * (1 + Largest(exact_gradient))) << what;
      }
    }
  }
}

TEST(AdapterNetwork, ExportsTheMapThatItComputes) {
  for (const AdapterKind kind :
       {AdapterKind::kProcrustes, AdapterKind::kAffine, AdapterKind::kLowRankAffine, AdapterKind::kResidualMlp}) {
    for (const int out : {5, 6}) {
      AdaptOptions options = OptionsOf(AdapterDirection::kItem, Metric::kLorentz, 6, out);
      options.kind = kind;
      const Tensor x = Uniform({80, 6}, 1, torch::kFloat32) * 3, y = Uniform({80, out}, 2, torch::kFloat32) * 0.2;
      AdapterNetwork network(options, FitRidge(x, y), x, y);
      const std::vector<Tensor> start = network.Snapshot();
      std::vector<Tensor> moved;  // B is 0 at the start: a map that shows every part
      for (size_t i = 0; i < start.size(); ++i) {
        moved.push_back(start[i] + 0.1 * Uniform(start[i].sizes(), 10 + i, torch::kFloat32));
      }
      network.Restore(moved);
      const AdapterSpec spec = network.Export();
      const absl::StatusOr<Adapter> adapter = Adapter::Make(spec);
      ASSERT_TRUE(adapter.ok()) << MessageOf(adapter.status());
      torch::NoGradGuard no_grad;
      const Tensor expected = network.Forward(x);
      std::vector<float> result(static_cast<size_t>(80 * out));
      adapter->Apply({x.data_ptr<float>(), 480}, result);
      EXPECT_LT(Largest(torch::tensor(result).reshape({80, out}) - expected), 5e-5) << AdapterKindName(kind) << out;
    }
  }
}

TEST(AdapterNetwork, ADifferentUnitOfInputAndTargetGivesTheSameMap) {
  AdaptOptions options = OptionsOf(AdapterDirection::kItem, Metric::kLorentz, 4, 4);
  const Tensor x = Uniform({80, 4}, 1, torch::kFloat32), y = Uniform({80, 4}, 2, torch::kFloat32);
  const AdapterSpec one = AdapterNetwork(options, FitRidge(x, y), x, y).Export();
  const AdapterSpec scaled = AdapterNetwork(options, FitRidge(x * 8, y), x * 8, y).Export();
  for (size_t i = 0; i < one.hidden.size(); ++i) EXPECT_NEAR(scaled.hidden[i] * 8, one.hidden[i], 1e-5);
  for (size_t i = 0; i < one.linear.size(); ++i) EXPECT_NEAR(scaled.linear[i] * 8, one.linear[i], 1e-4);
}

TEST(FitErrorHead, HasNoHeadWhereErrorsFollowNothing) {
  const Tensor z = Uniform({200, 3}, 1, torch::kFloat32);
  const ErrorHead nothing = FitErrorHead(z, Tensor(), torch::ones({200}, torch::kFloat64));
  EXPECT_EQ(nothing.head, AdapterHead::kNone);
  EXPECT_TRUE(nothing.weights.empty());
  // The hidden layer knows what the input tells only by its product.
  const Tensor product = z.select(1, 0) * z.select(1, 1);
  const ErrorHead hidden = FitErrorHead(z, product.unsqueeze(1), torch::exp(product.to(torch::kFloat64)));
  EXPECT_EQ(hidden.head, AdapterHead::kHidden);
  EXPECT_EQ(hidden.weights.size(), 2u);
  EXPECT_NEAR(hidden.weights[0], 1, 0.01);
  EXPECT_GT(hidden.r2, 0.99);
}

TEST(RankTwoLegs, OverOneSpaceIsRetrievalFromTheMixedMatrix) {
  const TwoModels world = MakeTwoModels(70, 5, 6, 6, Metric::kLorentz, 3);
  const Space space = world.new_space;
  const auto points = [&](const std::vector<float>& z) {
    return LiftTo(space, torch::tensor(z).reshape({70, 6}).to(torch::kFloat64));
  };
  std::vector<uint8_t> mask(70);
  std::vector<float> mixed = world.old_z;
  for (size_t i = 0; i < 70; i += 3) {
    mask[i] = 1;
    std::copy_n(world.new_z.begin() + static_cast<std::ptrdiff_t>(i * 6), 6,
                mixed.begin() + static_cast<std::ptrdiff_t>(i * 6));
  }
  const MetricPoints queries = points(world.new_z);
  const std::vector<RetrievalFigures> figures =
      RankTwoLegs({space, queries, points(world.old_z)}, {space, queries, points(world.new_z)}, world.labels, {mask});
  const RetrievalFigures truth =
      EvaluateRetrieval({"lorentz", 1.0, 6}, {world.new_z, world.labels, 1.2}, {mixed, world.labels, 1.2}, true)
          .value();
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_NEAR(figures[0].map, truth.map, 1e-3);
  EXPECT_NEAR(figures[0].cmc1, truth.cmc1, 1e-3);
  EXPECT_EQ(figures[0].queries, truth.queries);
}

std::unique_ptr<Encoder> TinyEncoder(const std::string& path, int dimension, uint64_t seed) {
  EncoderConfig config;
  config.architecture = "mlp";
  config.width = 0.25;
  config.dimension = dimension;
  config.height = config.width_px = 6;
  config.channels = 1;
  Manifest manifest;
  manifest.name = "tiny";
  manifest.architecture = "mlp";
  manifest.dimension = dimension;
  manifest.input = {6, 6, 1, {0.5f}, {0.25f}};
  manifest.encoder_crc32c = ExportTorchScript(*BuildNetwork(config, seed).value(), path).value();
  return Encoder::Load(path, manifest).value();
}

TEST(FitItemAdapter, SaysBetweenWhichEncodersItWasFitted) {
  const TemporaryFolder folder;
  const auto old_model = TinyEncoder(folder / "old.pt", 8, 1), new_model = TinyEncoder(folder / "new.pt", 5, 2);
  const AdapterFile file =
      FitItemAdapter(*old_model, *new_model, TinyDataset(3), AugmentKind::kNone, /*seed=*/1).value();
  EXPECT_EQ(file.from_crc32c, old_model->manifest().encoder_crc32c);
  EXPECT_EQ(file.to_crc32c, new_model->manifest().encoder_crc32c);
  EXPECT_NE(file.from_crc32c, file.to_crc32c);
  EXPECT_TRUE(file.source == SpaceOf(old_model->manifest()).value());
}

TEST(EmbedPairs, GivesBothModelsTheSameViews) {
  const TemporaryFolder folder;
  const auto old_model = TinyEncoder(folder / "old.pt", 8, 1), new_model = TinyEncoder(folder / "new.pt", 5, 2);
  const ImageSet images = TinyImages(3, 4, 1);
  const ModelPairs pairs = EmbedPairs(*old_model, *new_model, images, AugmentKind::kNone, 2, 7).value();
  ASSERT_EQ(pairs.old_z.size(), 2u * 12 * 8);
  ASSERT_EQ(pairs.new_z.size(), 2u * 12 * 5);
  EXPECT_EQ(pairs.labels.size(), 24u);
  EXPECT_EQ(pairs.items[0], pairs.items[12]);
  const std::vector<float> plain = EmbedSplit(*old_model, images).value();
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_NEAR(pairs.old_z[i], plain[i], 1e-5);
    ASSERT_NEAR(pairs.old_z[plain.size() + i], plain[i], 1e-5) << "a change of kind none changes no pixel";
  }
  const ModelPairs changed = EmbedPairs(*old_model, *new_model, images, AugmentKind::kDrawing, 2, 7).value();
  EXPECT_GT(std::abs(changed.old_z[plain.size()] - plain[0]), 1e-6);
  const ModelPairs again = EmbedPairs(*old_model, *new_model, images, AugmentKind::kDrawing, 2, 7).value();
  const std::vector<float> one = EmbedView(*new_model, images, AugmentKind::kDrawing, 1, 7).value();
  EXPECT_TRUE(std::equal(one.begin(), one.end(), changed.new_z.end() - std::ssize(one), changed.new_z.end()))
      << "one model's changed copies alone";
  EXPECT_FALSE(EmbedView(*new_model, images, AugmentKind::kDrawing, 0, 7).ok()) << "the plain view is no copy";
  EXPECT_EQ(again.new_z, changed.new_z);
  ImageSet colour = images;
  colour.channels = 3;
  EXPECT_THAT(MessageOf(EmbedPairs(*old_model, *new_model, colour, AugmentKind::kNone, 1, 7).status()),
              HasSubstr("'old_model.input.channels' is 1; allowed: 3"));
  EXPECT_THAT(MessageOf(EmbedPairs(*old_model, *new_model, images, AugmentKind::kNone, 0, 7).status()),
              HasSubstr("'views' is 0"));
}

}  // namespace
}  // namespace lightcone
