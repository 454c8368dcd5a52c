// Thresholds that outlive a generation, and the chance that a hit is relevant, against what items really are.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "mixture_world.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class ScoreScale : public MixtureTest {
 protected:
  static constexpr uint64_t kAsked = 320;  // queries of each measurement, which no probe is
  static constexpr double kItemsOfClass = static_cast<double>(kItems) / kClasses;

  // The same drawings as both models see them.
  struct Asked {
    uint64_t label = 0;
    std::vector<float> old_query, query;
  };
  std::vector<Asked> DrawQueries() {
    std::vector<Asked> asked;
    for (uint64_t i = 0; i < kAsked; ++i) {
      const std::vector<float> hidden = Draw(i % kClasses);
      asked.push_back({i % kClasses, OldModel(hidden), Noisy(hidden, world_.new_noise)});
    }
    return asked;
  }

  struct Found {
    double precision = 0, recall = 0;
  };
  // Over all queries: right ones among the hits, and hits among what is right.
  Found Measure(const std::vector<Asked>& asked, uint32_t generation, const SearchCall& bounds) {
    double right = 0, hits = 0;
    for (const Asked& one : asked) {
      SearchCall call = bounds;
      call.queries = SearchFor(generation == 1 ? one.old_query : one.query).queries;
      call.generation = generation;
      for (const EngineHit& hit : Hits(call)) {
        right += IsRight(one, hit);
        ++hits;
      }
    }
    return {hits > 0 ? right / hits : 1, right / (kAsked * kItemsOfClass)};
  }
  static bool IsRight(const Asked& asked, const EngineHit& hit) {
    return std::get<uint64_t>(hit.id.value) % kClasses == asked.label;
  }

  static SearchCall Bounded(double distance_max, uint32_t scale_generation) {
    SearchCall call = SearchFor({}, kItems);
    call.distance_max = distance_max;
    call.scale_generation = scale_generation;
    return call;
  }
  // The distance within which so large a share of what is right lies under generation 1.
  double ThresholdOf(const std::vector<Asked>& asked, double share) {
    std::vector<double> right;
    for (const Asked& one : asked) {
      for (const EngineHit& hit : Hits(SearchFor(one.old_query, kItems, 1))) {
        if (IsRight(one, hit)) right.push_back(hit.distance);
      }
    }
    std::sort(right.begin(), right.end());
    return right[static_cast<size_t>(share * static_cast<double>(right.size() - 1))];
  }
  void ValidateAndActivate() {
    const auto report = Validate();
    ASSERT_TRUE(report != nullptr && report->passed);
    ASSERT_TRUE(TryActivate(2).ok());
  }
  absl::Status SetScale(uint32_t generation) {
    UpdateCollectionCall call;
    call.collection = "c";
    call.scale_generation = generation;
    return engine_->UpdateCollection(call).status();
  }
};

TEST_F(ScoreScale, AThresholdOfTheOldGenerationFindsAsMuchUnderTheNewOneAndNoMoreThatIsWrong) {
  World world;
  world.probes = 2'000;  // 400 tell a share to about 0.03
  MakeWorld(world);
  ValidateAndActivate();
  const std::vector<Asked> asked = DrawQueries();
  for (const double share : {0.1, 0.3, 0.6}) {
    SCOPED_TRACE(share);
    const double threshold = ThresholdOf(asked, share);
    const Found before = Measure(asked, 1, Bounded(threshold, 0));
    const Found mixed = Measure(asked, 2, Bounded(threshold, 1));
    EXPECT_NEAR(before.recall, share, 0.01);
    EXPECT_NEAR(mixed.recall, before.recall, 0.02) << "of items that two generations embedded";
    EXPECT_GE(mixed.precision, before.precision - 0.02);
    const Found plain = Measure(asked, 2, Bounded(threshold, 2));
    EXPECT_GT(std::abs(plain.recall - before.recall), 0.05) << "the old number means something else by now";
    SearchCall by_score = Bounded(threshold, 1);
    by_score.distance_max.reset();
    by_score.score_threshold = -threshold;
    EXPECT_EQ(Measure(asked, 2, by_score).recall, mixed.recall);
  }
}

TEST_F(ScoreScale, AThresholdHoldsAtEveryShareEmbeddedAnew) {
  for (const uint64_t common : {uint64_t{200}, uint64_t{800}, uint64_t{2'000}}) {
    SCOPED_TRACE(common);
    World world;
    world.common = common;
    world.probes = 1'200;
    classes_.clear(), old_rows_.clear(), new_rows_.clear(), adapter_ = {};
    engine_.reset();
    std::filesystem::remove_all(folder_.path());
    engine_ = OpenEngine(folder_.path());
    MakeWorld(world);
    ASSERT_NE(Validate(), nullptr);
    const std::vector<Asked> asked = DrawQueries();
    const double threshold = ThresholdOf(asked, 0.4);
    const Found before = Measure(asked, 1, Bounded(threshold, 0)), now = Measure(asked, 2, Bounded(threshold, 1));
    EXPECT_NEAR(now.recall, before.recall, 0.03);
    EXPECT_GE(now.precision, before.precision - 0.02);
  }
}

TEST_F(ScoreScale, RelevanceIsTheShareOfHitsThatAreRight) {
  MakeWorld({});
  ValidateAndActivate();
  struct Bin {
    double told = 0, right = 0, count = 0;
  };
  std::map<std::pair<uint32_t, int>, Bin> bins;  // by generation and tenth
  const std::vector<Asked> asked = DrawQueries();
  for (const Asked& one : asked) {
    for (const EngineHit& hit : Hits(SearchFor(one.query, 100, 2))) {
      ASSERT_TRUE(hit.relevance.has_value());
      ASSERT_GE(*hit.relevance, 0);
      ASSERT_LE(*hit.relevance, 1);
      Bin& bin = bins[{hit.generation, static_cast<int>(*hit.relevance * 10)}];
      bin.told += *hit.relevance;
      bin.right += IsRight(one, hit);
      ++bin.count;
    }
  }
  int measured = 0;
  for (const auto& [key, bin] : bins) {
    if (bin.count < 200) continue;
    EXPECT_NEAR(bin.told / bin.count, bin.right / bin.count, 0.08) << "generation " << key.first << ", " << key.second;
    ++measured;
  }
  EXPECT_GT(measured, 8);
  // The bound leaves out those below it, and nothing else.
  for (uint64_t i = 0; i < 20; ++i) {
    SearchCall call = SearchFor(asked[i].query, kItems, 2);
    std::vector<ItemId> wanted;
    for (const EngineHit& hit : Hits(call)) {
      if (*hit.relevance >= 0.5) wanted.push_back(hit.id);
    }
    call.relevance_min = 0.5;
    std::vector<ItemId> found;
    for (const EngineHit& hit : Hits(call)) found.push_back(hit.id);
    EXPECT_EQ(found, wanted);
  }
}

TEST_F(ScoreScale, HitsTellTheirDistanceOnTheScale) {
  MakeWorld({});
  ValidateAndActivate();
  const Asked one = DrawQueries()[0];
  SearchCall call = SearchFor(one.query, kItems, 2);
  EXPECT_FALSE(Hits(call)[0].scaled_distance.has_value()) << "nobody asked";
  call.scale_generation = 1;
  std::map<uint32_t, std::vector<std::pair<double, double>>> by_generation;
  for (const EngineHit& hit : Hits(call)) {
    ASSERT_TRUE(hit.scaled_distance.has_value());
    by_generation[hit.generation].emplace_back(hit.distance, *hit.scaled_distance);
  }
  ASSERT_EQ(by_generation.size(), 2u);
  for (auto& [generation, distances] : by_generation) {
    std::sort(distances.begin(), distances.end());
    for (size_t i = 1; i < distances.size(); ++i) ASSERT_GE(distances[i].second, distances[i - 1].second);
  }
  const double bound = by_generation[2][300].second;
  call.distance_max = bound;
  int64_t within = 0;
  for (const auto& [generation, distances] : by_generation) {
    for (const auto& [distance, scaled] : distances) within += scaled <= bound;
  }
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->scale_generation, 1u);
  ASSERT_EQ(answer->bounds.size(), 2u);
  EXPECT_NEAR(static_cast<double>(answer->results[0].hits.size()), static_cast<double>(within), 1);
  for (const EngineHit& hit : answer->results[0].hits) EXPECT_LE(*hit.scaled_distance, bound + 1e-9);
  // The generation's own queries are on it as they are.
  SearchCall own = SearchFor(one.old_query, 50, 1);
  own.scale_generation = 1;
  for (const EngineHit& hit : Hits(own)) EXPECT_EQ(hit.scaled_distance, hit.distance);
}

TEST_F(ScoreScale, WhatNoValidationMeasuredIsRefusedByName) {
  MakeWorld({});
  const Asked one = DrawQueries()[0];
  SearchCall call = SearchFor(one.query, 10, 2);
  EXPECT_FALSE(Hits(call)[0].relevance.has_value());
  call.scale_generation = 1;
  const auto unscaled = engine_->Search(call, {});
  ASSERT_TRUE(unscaled.ok()) << "there is no bound";
  EXPECT_TRUE(unscaled->results[0].status.ok());
  EXPECT_EQ(unscaled->unscaled, (std::vector<uint32_t>{1, 2}));
  call.distance_max = 1;
  const auto bounded = engine_->Search(call, {});
  ASSERT_TRUE(bounded.ok());
  EXPECT_TRUE(Fails(bounded->results[0].status, Code::kFailedPrecondition, {"scale_generation", "generation 1"}));
  call.distance_max.reset();
  EXPECT_TRUE(Fails(SetScale(1), Code::kFailedPrecondition, {"scale_generation", "generation 1"}));
  call.scale_generation = 3;
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"scale_generation", "3", "0 .. 2"}));
  EXPECT_TRUE(Fails(SetScale(3), Code::kInvalidArgument, {"scale_generation", "3", "0 .. 2"}));
  call.scale_generation = 0;
  for (const double bad : {-0.1, 1.1, std::nan("")}) {
    call.relevance_min = bad;
    EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"relevance_min", "0 .. 1"}));
  }
  call.relevance_min = 0.5;
  const auto unmeasured = engine_->Search(call, {});
  ASSERT_TRUE(unmeasured.ok());
  EXPECT_TRUE(
      Fails(unmeasured->results[0].status, Code::kFailedPrecondition, {"relevance_min", "items of generation 1"}));
}

TEST_F(ScoreScale, AnotherAdapterEndsTheScaleOfItsItemsAlone) {
  MakeWorld({});
  ValidateAndActivate();
  adapter_.offset[0] = 0.01f;
  PutTheAdapter();
  SearchCall call = SearchFor(DrawQueries()[0].query, kItems, 2);
  call.scale_generation = 1;
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->unscaled, std::vector<uint32_t>{1});
  for (const EngineHit& hit : answer->results[0].hits) {
    EXPECT_EQ(hit.scaled_distance.has_value(), hit.generation == 2);
    EXPECT_EQ(hit.relevance.has_value(), hit.generation == 2);
  }
  call.distance_max = 1;
  const auto bounded = engine_->Search(call, {});
  ASSERT_TRUE(bounded.ok());
  EXPECT_TRUE(Fails(bounded->results[0].status, Code::kFailedPrecondition, {"scale_generation", "generation 1"}));
}

TEST_F(ScoreScale, OutlivesTheLastItemOfItsGeneration) {
  MakeWorld({});
  ValidateAndActivate();
  const std::vector<Asked> asked = DrawQueries();
  const double threshold = ThresholdOf(asked, 0.4);
  const Found before = Measure(asked, 1, Bounded(threshold, 0));
  std::vector<UpsertItem> rest;
  for (uint64_t id = world_.common; id < kItems; ++id) {
    // What the old model saw says nothing of the hidden numbers behind: these are drawn again.
    rest.push_back(ItemOf(Id(id), NewQuery(id % kClasses)));
  }
  Write(BatchOf(std::move(rest), 2, /*same_content=*/true));
  const auto report = Validate();
  ASSERT_NE(report, nullptr);
  EXPECT_TRUE(report->pairs.empty() || report->pairs[0].replaced) << "nothing of generation 1 is served";
  for (const bool restarted : {false, true}) {
    if (restarted) Restart();
    const Found now = Measure(asked, 2, Bounded(threshold, 1));
    EXPECT_NEAR(now.recall, before.recall, 0.03);
    EXPECT_GE(now.precision, before.precision - 0.02);
  }
}

TEST_F(ScoreScale, WalksOfGraphsLoseNothingToTheOtherLegsPlainDistances) {
  World world;
  world.common = 1'150;
  MakeWorld(world);
  ValidateAndActivate();
  IndexSettings settings;
  settings.kind = SealedKind::kHnsw;
  ASSERT_TRUE(engine_->Rebuild("c", settings, /*wait=*/true, "", {}).ok());
  const std::vector<Asked> asked = DrawQueries();
  const double threshold = ThresholdOf(asked, 0.05);
  size_t wanted = 0, found = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    SearchCall call = Bounded(threshold, 1);
    call.queries = SearchFor(asked[i].query).queries;
    call.generation = 2;
    call.k = 10;
    std::set<ItemId> truth;
    for (const EngineHit& hit : Hits(call)) truth.insert(hit.id);
    call.exact = false;
    wanted += truth.size();
    for (const EngineHit& hit : Hits(call)) found += truth.contains(hit.id);
  }
  EXPECT_GT(wanted, 60u);
  EXPECT_GE(static_cast<double>(found), 0.95 * static_cast<double>(wanted));
}

TEST_F(ScoreScale, HitsOfAnOlderVectorAloneAreTakenAsTheyWereMeasured) {
  MakeWorld({});
  ValidateAndActivate();
  const DropAdapterCall drop{"", "c", 2, 1, /*force=*/true};
  ASSERT_TRUE(engine_->DropAdapter(drop).ok());
  const Asked one = DrawQueries()[0];
  SearchCall call = SearchFor(one.query, kItems, 2);
  call.queries[0].older_vectors = {{1, one.old_query}};
  call.scale_generation = 1;
  size_t older = 0;
  std::vector<double> scaled;
  for (const EngineHit& hit : Hits(call)) {
    if (hit.generation != 1) continue;
    const uint64_t id = std::get<uint64_t>(hit.id.value);
    ASSERT_TRUE(hit.scaled_distance.has_value());
    EXPECT_NEAR(*hit.scaled_distance, DistanceNaively(old_, Doubles(one.old_query), old_, Doubles(old_rows_[id])),
                2e-5);
    scaled.push_back(*hit.scaled_distance);
    ++older;
  }
  ASSERT_EQ(older, kItems - kCommon);
  std::sort(scaled.begin(), scaled.end());
  call.distance_max = (scaled[99] + scaled[100]) / 2;
  older = 0;
  for (const EngineHit& hit : Hits(call)) older += hit.generation == 1;
  EXPECT_EQ(older, 100u);
}

TEST_F(ScoreScale, ACollectionKeepsTheScaleOfItsApplications) {
  MakeWorld({});
  ValidateAndActivate();
  ASSERT_TRUE(SetScale(1).ok());
  const std::vector<Asked> asked = DrawQueries();
  const double threshold = ThresholdOf(asked, 0.3);
  const Found said = Measure(asked, 2, Bounded(threshold, 1));
  EXPECT_EQ(Measure(asked, 2, Bounded(threshold, 0)).recall, said.recall);
  Restart();
  EXPECT_EQ(engine_->GetCollection("c")->scale_generation, 1u);
  EXPECT_EQ(Measure(asked, 2, Bounded(threshold, 0)).recall, said.recall);
  ASSERT_TRUE(SetScale(0).ok());
  EXPECT_NE(Measure(asked, 2, Bounded(threshold, 0)).recall, said.recall);
}

}  // namespace
}  // namespace lightcone::server
