// Fitting and evaluation of adapters from embeddings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "base/status.h"
#include "tests/trainer/two_models.h"
#include "trainer/adapt/evaluate_adapter.h"
#include "trainer/adapt/fit.h"
#include "trainer/adapt/options.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

constexpr AdapterDirection kBothDirections[] = {AdapterDirection::kItem, AdapterDirection::kQuery};

AdaptOptions OptionsFor(const TwoModels& world, AdapterDirection direction) {
  const bool item = direction == AdapterDirection::kItem;
  AdaptOptions options;
  options.direction = direction;
  options.source = item ? world.old_space : world.new_space;
  options.target = item ? world.new_space : world.old_space;
  options.from = item ? "old" : "new";
  options.to = item ? "new" : "old";
  options.width = 32;
  options.rank = 4;
  options.steps = 60;
  options.batch = 64;
  options.bank = 128;
  options.evaluate_every = 20;
  return options;
}

EmbeddingPairs PairsOf(const TwoModels& world, AdapterDirection direction, bool labels) {
  const bool item = direction == AdapterDirection::kItem;
  return {item ? world.old_z : world.new_z,
          item ? world.new_z : world.old_z,
          labels ? std::span<const int32_t>(world.labels) : std::span<const int32_t>(),
          {}};
}

AdapterTestSet TestSetOf(const TwoModels& world) {
  return {world.old_z, world.new_z, world.labels, world.old_space, world.new_space};
}

AdapterEvaluation Evaluated(const AdapterSpec& spec, const TwoModels& world,
                            const AdapterEvaluationOptions& options = {}) {
  const absl::StatusOr<AdapterEvaluation> evaluation =
      EvaluateAdapter(Adapter::Make(spec).value(), TestSetOf(world), options);
  EXPECT_TRUE(evaluation.ok()) << MessageOf(evaluation.status());
  return evaluation.value();
}

TEST(FitAdapter, EveryLossInBothDirectionsMakesNewQueriesFindOldItems) {
  const TwoModels train = MakeTwoModels(400, 8, 12, 12, Metric::kLorentz, 1),
                  test = MakeTwoModels(80, 8, 12, 12, Metric::kLorentz, 2);
  for (const AdapterDirection direction : kBothDirections) {
    for (const char* loss : {"reg", "rel", "sup", "contra", "reg+rel", "reg+0.5*sup", "auto"}) {
      AdaptOptions options = OptionsFor(train, direction);
      options.loss = loss;
      const absl::StatusOr<AdapterFile> file = FitAdapter(PairsOf(train, direction, true), options);
      ASSERT_TRUE(file.ok()) << loss << ": " << MessageOf(file.status());
      const AdapterEvaluation evaluation = Evaluated(file->spec, test);
      ASSERT_TRUE(evaluation.plain.has_value());
      EXPECT_GT(evaluation.adapted.map, evaluation.plain->map + 0.1) << loss << AdapterDirectionName(direction);
      EXPECT_GT(evaluation.adapted.map, 0.8 * evaluation.old_old.map) << loss << AdapterDirectionName(direction);
      EXPECT_EQ(file->fit.loss, std::string(loss) == "auto" ? kAutoLossLabelled : loss);
    }
  }
}

TEST(FitAdapter, SaysBetweenWhatItWasFitted) {
  const TwoModels world = MakeTwoModels(120, 8, 6, 5, Metric::kLorentz, 1);
  AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
  options.kind = AdapterKind::kAffine;
  options.steps = 1;
  options.from_crc32c = 17;
  options.to_crc32c = 23;
  const AdapterFile file = FitAdapter(PairsOf(world, AdapterDirection::kItem, false), options).value();
  EXPECT_EQ(file.from_crc32c, 17u);
  EXPECT_EQ(file.to_crc32c, 23u);
  EXPECT_TRUE(file.source == world.old_space);
}

TEST(FitAdapter, EveryMapCrossesDimensionsUnderBothMetrics) {
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine}) {
    const TwoModels train = MakeTwoModels(400, 8, 10, 16, metric, 1), test = MakeTwoModels(80, 8, 10, 16, metric, 2);
    for (const AdapterDirection direction : kBothDirections) {
      for (const AdapterKind kind : {AdapterKind::kProcrustes, AdapterKind::kAffine, AdapterKind::kLowRankAffine,
                                     AdapterKind::kResidualMlp, AdapterKind::kKernel}) {
        AdaptOptions options = OptionsFor(train, direction);
        options.kind = kind;
        if (kind == AdapterKind::kKernel) options.width = 120;
        options.steps = 20;
        const absl::StatusOr<AdapterFile> file = FitAdapter(PairsOf(train, direction, false), options);
        ASSERT_TRUE(file.ok()) << AdapterKindName(kind) << ": " << MessageOf(file.status());
        EXPECT_EQ(file->fit.loss,
                  kind == AdapterKind::kProcrustes || kind == AdapterKind::kKernel ? "closed-form" : "reg+rel");
        EXPECT_EQ(file->fit.pairs + file->fit.held_out_pairs, 400);
        const AdapterEvaluation evaluation = Evaluated(file->spec, test);
        EXPECT_FALSE(evaluation.plain.has_value()) << "vectors of 10 and of 16 numbers have no distance";
        EXPECT_GT(evaluation.adapted.map, 0.5 * evaluation.old_old.map) << AdapterKindName(kind);
      }
    }
  }
}

TEST(FitAdapter, TheHeldOutLossIsTheHeldOutErrorHoweverFarTheClip) {
  for (const float clip : {1.0f, 8.0f}) {
    TwoModels world = MakeTwoModels(200, 8, 6, 6, Metric::kLorentz, 1);
    world.old_space.clip_radius = world.new_space.clip_radius = clip;
    for (std::vector<float>* side : {&world.old_z, &world.new_z}) {
      for (float& x : *side) x *= 3 * clip;
    }
    AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
    options.kind = AdapterKind::kAffine;
    options.loss = "reg";
    options.steps = 40;
    double best = 0;
    const AdapterFile file =
        FitAdapter(PairsOf(world, AdapterDirection::kItem, false), options, [&](const AdaptProgress& progress) {
          best = progress.best_loss;
        }).value();
    EXPECT_NEAR(best, file.fit.held_out_error, 1e-9 + 1e-7 * best) << clip;
  }
}

TEST(FitAdapter, OfACosineDoesNotKnowHowLongAVectorIs) {
  const auto scaled = [](TwoModels world, float old_length, float new_length) {
    for (float& x : world.old_z) x *= old_length;
    for (float& x : world.new_z) x *= new_length;
    return world;
  };
  const TwoModels train = MakeTwoModels(400, 8, 10, 12, Metric::kCosine, 1),
                  test = MakeTwoModels(80, 8, 10, 12, Metric::kCosine, 2);
  for (const AdapterDirection direction : kBothDirections) {
    for (const AdapterKind kind : {AdapterKind::kProcrustes, AdapterKind::kAffine, AdapterKind::kLowRankAffine,
                                   AdapterKind::kResidualMlp, AdapterKind::kKernel}) {
      AdaptOptions options = OptionsFor(train, direction);
      options.kind = kind;
      if (kind == AdapterKind::kKernel) options.width = 120;
      options.steps = 20;
      double known = 0;
      for (const float length : {1.0f, 1e-6f, 1e-16f, 1e6f}) {
        const TwoModels world = scaled(train, length, 1 / length);
        const absl::StatusOr<AdapterFile> file = FitAdapter(PairsOf(world, direction, false), options);
        ASSERT_TRUE(file.ok()) << AdapterKindName(kind) << " " << length << ": " << MessageOf(file.status());
        EXPECT_TRUE(file->spec.unit_input);
        const double map = Evaluated(file->spec, test).adapted.map;
        if (length == 1) known = map;
        EXPECT_NEAR(map, known, 0.05) << AdapterKindName(kind) << " fitted from rows scaled by " << length;
        const Adapter adapter = Adapter::Make(file->spec).value();
        const std::vector<float>& rows = direction == AdapterDirection::kItem ? test.old_z : test.new_z;
        std::vector<float> ten_times = rows;
        for (float& x : ten_times) x *= 10;
        const size_t out = test.labels.size() * static_cast<size_t>(adapter.output_dimension());
        std::vector<float> carried(out), carried_ten_times(out);
        adapter.Apply(rows, carried);
        adapter.Apply(ten_times, carried_ten_times);
        for (size_t i = 0; i < out; ++i) {
          ASSERT_NEAR(carried[i], carried_ten_times[i], 1e-5) << AdapterKindName(kind) << ", number " << i;
        }
      }
    }
  }
}

// Pairs (z, change(z)) with z uniform in [-1, 1]^d.
template <typename Change>
TwoModels Related(int items, int dimension, uint64_t seed, const Change& change) {
  TwoModels world;
  world.old_space = world.new_space = {Metric::kLorentz, dimension, 1.0, 5.0};
  Rng rng(seed);
  for (int i = 0; i < items; ++i) {
    std::vector<double> z(static_cast<size_t>(dimension));
    for (double& x : z) x = rng.Uniform(-1, 1);
    for (const double x : z) world.old_z.push_back(static_cast<float>(x));
    for (const double x : change(z, rng)) world.new_z.push_back(static_cast<float>(x));
    world.labels.push_back(i % 4);
  }
  return world;
}

TEST(FitAdapter, ByAKernelFindsWhatNoLinearMapCanAndWhatTheServerComputes) {
  const TwoModels train = Related(3000, 3, 5, [](const std::vector<double>& z, Rng&) {
    return std::vector<double>{std::sin(3 * z[0]), z[1] * z[2], std::abs(z[0])};
  });
  AdaptOptions options = OptionsFor(train, AdapterDirection::kItem);
  options.kind = AdapterKind::kKernel;
  options.width = 400;
  const absl::StatusOr<AdapterFile> file = FitAdapter(PairsOf(train, AdapterDirection::kItem, false), options);
  ASSERT_TRUE(file.ok()) << MessageOf(file.status());
  EXPECT_LT(file->fit.held_out_error, 0.1 * file->fit.baseline_error);
  const Adapter adapter = Adapter::Make(file->spec).value();
  std::vector<float> out(train.new_z.size());
  adapter.Apply(train.old_z, out);
  double worst = 0;
  for (size_t i = 0; i < out.size(); ++i) worst = std::max(worst, std::abs(double{out[i]} - train.new_z[i]));
  EXPECT_LT(worst, 0.3) << "float32 inference of the fitted rows";
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(
      absl::IsCancelled(FitAdapter(PairsOf(train, AdapterDirection::kItem, false), options, {}, &stop).status()));
  options.width = 5000;
  EXPECT_THAT(MessageOf(FitAdapter(PairsOf(train, AdapterDirection::kItem, false), options).status()),
              HasSubstr("'width' is 5000; allowed: 1 .. 2700"));
}

// What cannot be told from the input makes least squares shorten; carried items would then be nearer to every query.
TEST(FitAdapter, ByAKernelCarriesItemsAboutAsFarFromTheOriginAsNativeOnesAre) {
  const auto noisy = [](std::vector<double> z, Rng& rng) {
    for (double& x : z) x = std::sin(3 * x) + 0.7 * rng.Normal();
    return z;
  };
  const TwoModels train = Related(1500, 4, 5, noisy), test = Related(1500, 4, 6, noisy);
  AdaptOptions options = OptionsFor(train, AdapterDirection::kItem);
  options.kind = AdapterKind::kKernel;
  options.width = 300;
  const AdapterFile file = FitAdapter(PairsOf(train, AdapterDirection::kItem, false), options).value();
  std::vector<float> carried(test.new_z.size());
  Adapter::Make(file.spec).value().Apply(test.old_z, carried);
  const auto length = [](const std::vector<float>& z) {
    double sum = 0;
    for (size_t i = 0; i < z.size(); i += 4) sum += NormOf(std::span(z).subspan(i, 4));
    return sum / static_cast<double>(z.size() / 4);
  };
  EXPECT_NEAR(length(carried) / length(test.new_z), 1, 0.03);
  AdaptOptions query = OptionsFor(train, AdapterDirection::kQuery);
  query.kind = AdapterKind::kKernel;
  query.width = 300;
  const AdapterFile reverse = FitAdapter(PairsOf(train, AdapterDirection::kQuery, false), query).value();
  Adapter::Make(reverse.spec).value().Apply(test.new_z, carried);
  EXPECT_LT(length(carried) / length(test.old_z), 0.97) << "queries are left as least squares have them";
}

TEST(FitAdapter, AResidualMlpLearnsWhatNoLinearMapCan) {
  const TwoModels world = Related(600, 4, 1, [](std::vector<double> z, Rng&) {
    for (double& x : z) x = std::abs(x);
    return z;
  });
  AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
  options.loss = "reg";
  options.steps = 300;
  options.learning_rate = 1e-2;
  options.width = 64;
  const AdapterFile file = FitAdapter(PairsOf(world, AdapterDirection::kItem, false), options).value();
  EXPECT_LT(file.fit.held_out_error, 0.7 * file.fit.baseline_error);
}

TEST(FitAdapter, ProcrustesFindsARotationAndItsScale) {
  const TwoModels world = Related(100, 2, 1, [](const std::vector<double>& z, Rng&) {
    return std::vector<double>{-0.5 * z[1], 0.5 * z[0]};
  });
  AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
  options.kind = AdapterKind::kProcrustes;
  const AdapterFile file = FitAdapter(PairsOf(world, AdapterDirection::kItem, false), options).value();
  const std::vector<float> expected = {0, -0.5f, 0.5f, 0};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(file.spec.linear[i], expected[i], 1e-5) << i;
  EXPECT_LT(file.fit.held_out_error, 1e-4);
  EXPECT_EQ(file.fit.steps, 0);
}

TEST(FitAdapter, StopsWhenHeldOutPairsGetNoBetterAndKeepsTheBestState) {
  const TwoModels world = Related(200, 3, 1, [](std::vector<double> z, Rng&) {
    return std::vector<double>{0.3 * z[0] + 0.1, 0.3 * z[1] - 0.2 * z[2], 0.3 * z[2]};
  });
  AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
  options.kind = AdapterKind::kAffine;
  options.loss = "reg";
  options.learning_rate = 1;  // every step leads away from the start, which is exact
  options.evaluate_every = 2;
  options.patience = 3;
  std::vector<AdaptProgress> looks;
  const AdapterFile file =
      FitAdapter(PairsOf(world, AdapterDirection::kItem, false), options, [&](const AdaptProgress& progress) {
        looks.push_back(progress);
      }).value();
  EXPECT_EQ(file.fit.steps, 6);
  EXPECT_LT(file.fit.held_out_error, 1e-3);
  ASSERT_EQ(looks.size(), 3u);
  EXPECT_TRUE(looks[2].finished);
  EXPECT_FALSE(looks[1].finished);
  EXPECT_GT(looks[2].held_out_loss, looks[2].best_loss);
}

TEST(FitAdapter, IsAFunctionOfPairsOptionsAndSeed) {
  const TwoModels world = MakeTwoModels(200, 8, 8, 8, Metric::kLorentz, 1);
  AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
  const auto bytes = [&] {
    return EncodeAdapter(FitAdapter(PairsOf(world, AdapterDirection::kItem, true), options).value()).value();
  };
  const std::string first = bytes();
  EXPECT_EQ(bytes(), first);
  options.seed = 2;
  EXPECT_NE(bytes(), first);
}

TEST(FitAdapter, UsesNoMorePairsThanAllowed) {
  const TwoModels world = MakeTwoModels(300, 8, 8, 8, Metric::kLorentz, 1);
  AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
  options.pairs_max = 100;
  options.held_out = 0.2;
  const AdapterFile file = FitAdapter(PairsOf(world, AdapterDirection::kItem, true), options).value();
  EXPECT_EQ(file.fit.pairs, 80);
  EXPECT_EQ(file.fit.held_out_pairs, 20);
}

TEST(FitAdapter, ViewsOfOneItemAreNeverOnBothSides) {
  const TwoModels world = MakeTwoModels(200, 8, 8, 8, Metric::kLorentz, 1);
  AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
  EmbeddingPairs pairs = PairsOf(world, AdapterDirection::kItem, true);
  std::vector<int32_t> items;
  for (int i = 0; i < 200; ++i) items.push_back(i % 40);  // five views each
  pairs.items = items;
  const AdapterFile file = FitAdapter(pairs, options).value();
  EXPECT_EQ(file.fit.held_out_pairs, 20) << "four whole items";
  options.pairs_max = 100;  // keeps whole items as far as they go: some twenty
  EXPECT_THAT(MessageOf(FitAdapter(pairs, options).status()), HasSubstr("different items in 100 pairs"));
  options.pairs_max = 0;
  for (int32_t& item : items) item = item < 2 ? item : 0;
  const absl::Status status = FitAdapter(pairs, options).status();
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'pairs.items'"));
}

TEST(FitAdapter, PredictsWhereItsErrorIsLarge) {
  const auto noisy = [](std::vector<double> z, Rng& rng) {
    double square = 0;
    for (const double x : z) square += x * x;
    const double noise = 0.05 + 0.5 / (1 + 4 * square);  // short vectors are the unsure ones
    for (double& x : z) x += noise * rng.Normal();
    return z;
  };
  const TwoModels train = Related(1500, 3, 1, noisy), test = Related(300, 3, 2, noisy);
  AdaptOptions options = OptionsFor(train, AdapterDirection::kItem);
  options.kind = AdapterKind::kAffine;
  options.loss = "reg";
  options.held_out = 0.4;
  const AdapterFile file = FitAdapter(PairsOf(train, AdapterDirection::kItem, false), options).value();
  EXPECT_EQ(file.spec.head, AdapterHead::kInput);
  EXPECT_GT(file.fit.head_r2, 0.1);
  const AdapterEvaluation evaluation = Evaluated(file.spec, test);
  ASSERT_TRUE(evaluation.error_auroc.has_value());
  EXPECT_GT(*evaluation.error_auroc, 0.6);
  options.error_head = false;
  const AdapterFile plain = FitAdapter(PairsOf(train, AdapterDirection::kItem, false), options).value();
  EXPECT_EQ(plain.spec.head, AdapterHead::kNone);
  EXPECT_FALSE(Evaluated(plain.spec, test).error_auroc.has_value());
}

TEST(FitAdapter, StopsWhenAsked) {
  const TwoModels world = MakeTwoModels(100, 4, 6, 6, Metric::kLorentz, 1);
  const std::atomic<bool> stop{true};
  const absl::Status status =
      FitAdapter(PairsOf(world, AdapterDirection::kItem, true), OptionsFor(world, AdapterDirection::kItem), {}, &stop)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(FitAdapter, NamesWhatIsWrongWithThePairs) {
  const auto error = [](int items, auto change) {
    TwoModels world = MakeTwoModels(items, 4, 6, 8, Metric::kLorentz, 1);
    AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
    EmbeddingPairs pairs = PairsOf(world, AdapterDirection::kItem, true);
    change(world, pairs, options);
    const absl::Status status = FitAdapter(pairs, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  using W = TwoModels&;
  using P = EmbeddingPairs&;
  using O = AdaptOptions&;
  EXPECT_EQ(error(63, [](W, P, O) {}), "field 'pairs' is 63 pairs; allowed: at least 64");
  EXPECT_THAT(error(64, [](W, P p, O) { p.target = p.target.first(63 * 8); }), HasSubstr("'pairs.target' is 63 rows"));
  EXPECT_THAT(error(64, [](W, P p, O) { p.source = p.source.first(100); }), HasSubstr("a multiple of the dimension 6"));
  EXPECT_THAT(error(64, [](W, P p, O) { p.labels = p.labels.first(3); }), HasSubstr("'pairs.labels' is 3 labels"));
  EXPECT_THAT(error(64, [](W w, P p, O) { p.items = std::span<const int32_t>(w.labels).first(3); }),
              HasSubstr("'pairs.items' is 3"));
  EXPECT_THAT(error(64, [](W w, P, O) { w.old_z[17 * 6 + 3] = std::numeric_limits<float>::quiet_NaN(); }),
              HasSubstr("'pairs.source[17][3]' is nan"));
  EXPECT_THAT(error(64, [](W w, P, O) { w.new_z[8] = INFINITY; }), HasSubstr("'pairs.target[1][0]' is inf"));
  EXPECT_THAT(error(64,
                    [](W, P p, O o) {
                      o.loss = "sup";
                      p.labels = {};
                    }),
              HasSubstr("'pairs.labels' is absent"));
}

TEST(FitAdapter, OfAClosedFormNeedsNoLabelsWhateverTheLoss) {
  const TwoModels world = MakeTwoModels(100, 4, 6, 8, Metric::kLorentz, 1);
  AdaptOptions options = OptionsFor(world, AdapterDirection::kItem);
  options.loss = "sup";
  options.kind = AdapterKind::kKernel;
  const absl::StatusOr<AdapterFile> file = FitAdapter(PairsOf(world, AdapterDirection::kItem, false), options);
  ASSERT_TRUE(file.ok()) << MessageOf(file.status());
  EXPECT_EQ(file->fit.loss, "closed-form");
}

TEST(AdaptOptions, NameTheFieldTheValueAndTheRange) {
  const auto error = [](auto change) {
    AdaptOptions options;
    options.source = {Metric::kLorentz, 6, 1.0, 1.0};
    options.target = {Metric::kLorentz, 8, 1.0, 1.2};
    EXPECT_TRUE(options.Validate().ok()) << MessageOf(options.Validate());
    change(options);
    return MessageOf(options.Validate());
  };
  using O = AdaptOptions&;
  EXPECT_EQ(error([](O o) {
              o.kind = AdapterKind::kLowRankAffine;
              o.rank = 7;
            }),
            "field 'rank' is 7; allowed: 1 .. 6 (the smaller dimension)");
  EXPECT_THAT(error([](O o) { o.source.dimension = 5000; }),
              HasSubstr("'source.dimension' is 5000; allowed: 1 .. 4096"));
  EXPECT_THAT(error([](O o) { o.target.clip_radius = -1; }), HasSubstr("'target.clip_radius' is -1"));
  EXPECT_THAT(error([](O o) { o.target.metric = Metric::kEuclidean; }), HasSubstr("'target.metric' is euclidean"));
  EXPECT_THAT(error([](O o) { o.loss = "mse"; }), HasSubstr("'loss' is 'mse'"));
  EXPECT_THAT(error([](O o) { o.loss = "reg+reg"; }), HasSubstr("'loss' is 'reg+reg'"));
  EXPECT_THAT(error([](O o) { o.loss = "-1*reg"; }), HasSubstr("'loss' is '-1*reg'"));
  EXPECT_THAT(error([](O o) { o.loss = ""; }), HasSubstr("'loss' is ''"));
  EXPECT_THAT(error([](O o) { o.width = -1; }), HasSubstr("'width' is -1"));
  EXPECT_THAT(error([](O o) { o.pairs_max = 10; }), HasSubstr("'pairs_max' is 10; allowed: 64 .. "));
  EXPECT_THAT(error([](O o) { o.held_out = 0.9; }), HasSubstr("'held_out' is 0.9"));
  EXPECT_THAT(error([](O o) { o.bank = 10; }), HasSubstr("'bank' is 10; allowed: 256 .. "));
  EXPECT_THAT(error([](O o) { o.learning_rate = std::nan(""); }), HasSubstr("'learning_rate' is nan"));
  EXPECT_THAT(error([](O o) { o.temperature = 0; }), HasSubstr("'temperature' is 0"));
  EXPECT_THAT(error([](O o) { o.steps = 0; }), HasSubstr("'steps' is 0"));
}

AdapterSpec Linear(AdapterDirection direction, int in, const Space& target, std::vector<float> linear) {
  AdapterSpec spec;
  spec.direction = direction;
  spec.kind = AdapterKind::kProcrustes;
  spec.input_dimension = in;
  spec.target = target;
  spec.linear = std::move(linear);
  return spec;
}

std::vector<float> Identity(int rows, int columns) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int i = 0; i < std::min(rows, columns); ++i) values[static_cast<size_t>(i * columns + i)] = 1;
  return values;
}

TEST(EvaluateAdapter, AnAdapterThatDoesNothingChangesNothing) {
  TwoModels world = MakeTwoModels(90, 6, 7, 7, Metric::kLorentz, 3);
  world.old_space.clip_radius = world.new_space.clip_radius;
  for (const AdapterDirection direction : kBothDirections) {
    const AdapterEvaluation e = Evaluated(Linear(direction, 7, world.new_space, Identity(7, 7)), world);
    EXPECT_DOUBLE_EQ(e.adapted.map, e.plain->map);
    EXPECT_DOUBLE_EQ(e.adapted.cmc1, e.plain->cmc1);
    EXPECT_EQ(e.p_com_adapted.map, e.p_com_plain.map);
  }
}

TEST(EvaluateAdapter, TheMixedGalleryBeginsAtTheAdapterAndEndsAtTheNewModel) {
  const TwoModels world = MakeTwoModels(90, 6, 7, 9, Metric::kLorentz, 3);
  for (const AdapterDirection direction : kBothDirections) {
    const bool item = direction == AdapterDirection::kItem;
    const AdapterSpec spec = Linear(direction, item ? 7 : 9, item ? world.new_space : world.old_space,
                                    item ? Identity(9, 7) : Identity(7, 9));
    const AdapterEvaluation e = Evaluated(spec, world);
    ASSERT_EQ(e.mixed.size(), std::size(kBackfillShares));
    EXPECT_NEAR(e.mixed.front().figures.map, e.adapted.map, 1e-3);
    EXPECT_NEAR(e.mixed.front().figures.cmc1, e.adapted.cmc1, 1e-3);
    EXPECT_NEAR(e.mixed.back().figures.map, e.new_new.map, 1e-3);
    EXPECT_GT(e.mixed[3].figures.map, e.mixed.front().figures.map) << "half of the items are embedded by the new model";
    AdapterEvaluationOptions options;
    options.mixed = false;
    EXPECT_TRUE(Evaluated(spec, world, options).mixed.empty());
  }
}

TEST(EvaluateAdapter, FindsADipWhenBackfillingMakesThingsWorse) {
  // The new model carries the old one's numbers and as many of loud noise; the adapter keeps the former.
  const TwoModels old_world = MakeTwoModels(120, 6, 6, 6, Metric::kCosine, 3);
  TwoModels world = old_world;
  world.new_space.dimension = 12;
  world.new_z.clear();
  Rng rng(9);
  for (size_t i = 0; i < world.labels.size(); ++i) {
    for (size_t j = 0; j < 6; ++j) world.new_z.push_back(old_world.old_z[i * 6 + j]);
    for (size_t j = 0; j < 6; ++j) world.new_z.push_back(static_cast<float>(2 * rng.Normal()));
  }
  const AdapterEvaluation e = Evaluated(Linear(AdapterDirection::kQuery, 12, world.old_space, Identity(6, 12)), world);
  EXPECT_NEAR(e.adapted.map, e.old_old.map, 1e-9);
  EXPECT_GT(e.dip_map, 0.1);
  EXPECT_FALSE(e.NoDip());
  EXPECT_NEAR(e.mean_error, 0, 1e-6);
}

TEST(EvaluateAdapter, GainsReferToTheBaseThatIsGiven) {
  const TwoModels world = MakeTwoModels(90, 6, 7, 7, Metric::kLorentz, 3);
  const AdapterSpec spec = Linear(AdapterDirection::kItem, 7, world.new_space, Identity(7, 7));
  const AdapterEvaluation without = Evaluated(spec, world);
  EXPECT_FALSE(without.base_given);
  EXPECT_DOUBLE_EQ(without.p_up.map.value(), 0);
  AdapterEvaluationOptions options;
  options.base = RetrievalFigures{2.0, 2.0, 2.0, 90, 0};
  const AdapterEvaluation with = Evaluated(spec, world, options);
  EXPECT_DOUBLE_EQ(with.p_up.cmc1.value(), (with.new_new.cmc1 - 2) / 2);
  EXPECT_DOUBLE_EQ(with.p_com_adapted.map.value(), (with.adapted.map - with.old_old.map) / (2 - with.old_old.map));
}

TEST(EvaluateAdapter, NamesWhatIsWrong) {
  const auto error = [](auto change) {
    TwoModels world = MakeTwoModels(20, 4, 6, 8, Metric::kLorentz, 3);
    AdapterSpec spec = Linear(AdapterDirection::kItem, 6, world.new_space, Identity(8, 6));
    AdapterTestSet test = TestSetOf(world);
    change(world, test, spec);
    const absl::Status status = EvaluateAdapter(Adapter::Make(spec).value(), test).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  using W = TwoModels&;
  using T = AdapterTestSet&;
  using S = AdapterSpec&;
  EXPECT_THAT(error([](W, T t, S) { t.labels = t.labels.first(1); }), HasSubstr("'test.labels' is 1 labels"));
  EXPECT_THAT(error([](W, T t, S) { t.new_z = t.new_z.first(7); }),
              HasSubstr("'test.new_z' is 7 numbers; allowed: exactly 160"));
  EXPECT_THAT(error([](W w, T, S) { w.old_z[7] = std::nanf(""); }), HasSubstr("'test.old_z[1][1]' is nan"));
  EXPECT_THAT(error([](W, T t, S) { t.old_space.curvature = 0; }), HasSubstr("'test.old_space.curvature' is 0"));
  EXPECT_THAT(error([](W, T t, S) { t.new_space.metric = Metric::kEuclidean; }), HasSubstr("'test.new_space.metric'"));
  EXPECT_THAT(error([](W, T, S s) { s.direction = AdapterDirection::kQuery; }),
              HasSubstr("'adapter.input_dimension' is 6; allowed: 8"));
  EXPECT_THAT(error([](W, T, S s) { s.target.curvature = 2; }), HasSubstr("'adapter.target.curvature' is 2"));
  EXPECT_THAT(error([](W, T, S s) { s.target.metric = Metric::kCosine; }), HasSubstr("'adapter.target' is cosine"));
}

}  // namespace
}  // namespace lightcone
