// Distances of older items put on the scale of the newer ones: learnt and measured by a validation, and what searches
// of the mixed gallery make of it.
#include <algorithm>
#include <optional>
#include <set>

#include "mixture_world.h"
#include "server/engine/collection/reach.h"
#include "server/engine/validation/probe_calibration.h"
#include "server/engine/validation/validation.h"
#include "server/engine/validation/verdict.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

TEST(MixtureDips, AreFallsBelowBothEnds) {
  const auto dips = [](std::vector<double> maps, double old_map) {
    std::vector<MixturePoint> points;
    for (const double map : maps) points.push_back({0, 0, map});
    return Dips(points, old_map);
  };
  EXPECT_FALSE(dips({}, 0.2));
  EXPECT_FALSE(dips({0.5, 0.5, 0.5}, 0.2));
  EXPECT_FALSE(dips({0.5, 0.495, 0.6}, 0.2)) << "within 0.01";
  EXPECT_TRUE(dips({0.5, 0.48, 0.6}, 0.2));
  EXPECT_FALSE(dips({0.6, 0.55, 0.5}, 0.2)) << "the new embeddings themselves are no better than that";
  EXPECT_TRUE(dips({0.6, 0.48, 0.5}, 0.2));
  EXPECT_TRUE(dips({0.6, 0.4, 0.02}, 0.2)) << "the new embeddings are of no use";
  EXPECT_TRUE(dips({0.6, 0.5, 0.3}, 0.5)) << "worse than the old ones";
}

class CalibratedMixture : public MixtureTest {
 protected:
  using Ranking = std::vector<std::pair<double, uint64_t>>;

  // What queries of generation 2 have to find in the mixed gallery, naively; `map`: of the older items' distances.
  Ranking Truth(const std::vector<float>& q, const DistanceCalibration& map) const {
    const std::vector<double> carried = CarriedNaively(adapter_, q);
    Ranking all;
    for (uint64_t id = 0; id < kItems; ++id) {
      all.emplace_back(id < world_.common ? DistanceNaively(new_, Doubles(q), new_, Doubles(new_rows_[id]))
                                          : map.Of(DistanceNaively(old_, carried, old_, Doubles(old_rows_[id]))),
                       id);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  // Adapters and the index's vectors are float32, the truth is not: neighbours nearer than that may change places.
  static void ExpectRanking(const std::vector<EngineHit>& hits, const Ranking& truth, size_t k) {
    ASSERT_EQ(hits.size(), std::min(truth.size(), k));
    std::vector<double> of(truth.size());
    for (const auto& [distance, id] : truth) of[id] = distance;
    for (size_t i = 0; i < hits.size(); ++i) {
      const uint64_t id = std::get<uint64_t>(hits[i].id.value);
      ASSERT_EQ(hits[i].generation, id < kCommon ? 2u : 1u) << "rank " << i;
      ASSERT_NEAR(-hits[i].score, of[id], 2e-5) << "rank " << i;
      ASSERT_NEAR(-hits[i].score, truth[i].first, 2e-5) << "rank " << i;
      ASSERT_LE(hits[i].score, hits[i > 0 ? i - 1 : 0].score) << "rank " << i;
    }
  }

  // Some queries of generation 2, few and all hits, exact and not. `differs`: the plain ranking is another one.
  void ExpectServed(const DistanceCalibration& map, bool differs, uint32_t generation = 2) {
    const uint64_t share = 5;
    uint64_t others = 0;
    for (uint64_t i = 0; i < share; ++i) {
      const std::vector<float> q = NewQuery(i);
      for (const size_t k : {size_t{20}, size_t{5'000}}) {
        for (const bool exact : {true, false}) {
          SearchCall call = SearchFor(q, static_cast<int64_t>(k), generation);
          call.exact = exact;
          const std::vector<EngineHit> hits = Hits(call);
          ExpectRanking(hits, Truth(q, map), k);
          if (HasFatalFailure()) return;
          for (const EngineHit& hit : hits) {
            EXPECT_EQ(hit.score, hit.generation == 1 ? -map.Of(hit.distance) : -hit.distance);
          }
        }
      }
      const Ranking truth = Truth(q, map), plain = Truth(q, DistanceCalibration());
      std::set<uint64_t> first, plain_first;
      for (size_t r = 0; r < 20; ++r) first.insert(truth[r].second), plain_first.insert(plain[r].second);
      others += first != plain_first;
    }
    EXPECT_EQ(others, differs ? share : 0);
  }
};

TEST_F(CalibratedMixture, MendsTheDipOfAScaledLegAndServesFromTheActivationOn) {
  MakeWorld({});
  const auto report = Validate();
  ASSERT_NE(report, nullptr);
  ASSERT_EQ(report->pairs.size(), 1u);
  const PairReport& pair = report->pairs[0];
  ASSERT_EQ(pair.ways.size(), 1u);
  const WayReport& way = pair.ways[0];
  EXPECT_TRUE(way.dips) << "plain distances put items of the older generation first";
  EXPECT_LT(way.mixture[2].map, way.mixture[0].map - 0.05);
  ASSERT_TRUE(way.calibration.has_value());
  const CalibrationReport& found = *way.calibration;
  ASSERT_EQ(found.none_because, "");
  EXPECT_TRUE(found.wins);
  EXPECT_FALSE(found.dips);
  EXPECT_GT(found.map_gain.low, 0.1);
  EXPECT_GT(found.cmc1_gain.value, 0);
  EXPECT_EQ(found.map_gain.samples, 400);
  EXPECT_GT(found.map.slope, 1);
  ASSERT_EQ(found.mixture.size(), 5u);
  EXPECT_NEAR(found.mixture[0].map, way.mixture[0].map, 1e-9) << "one leg alone keeps its order";
  EXPECT_NEAR(found.mixture[4].map, way.mixture[4].map, 1e-9);
  for (size_t s = 1; s < 4; ++s) EXPECT_GT(found.mixture[s].map, found.mixture[s - 1].map) << s;
  ASSERT_EQ(way.by_share.size(), 6u) << "the gallery's own share is among them";
  EXPECT_NEAR(way.by_share[3].share, static_cast<double>(kCommon) / kItems, 1e-9);
  EXPECT_GT(way.by_share[3].map_gain.value, way.by_share[0].map_gain.value) << "by the calibration, which wins";
  EXPECT_EQ(pair.judged_share, 0) << "it passes with nothing embedded anew";
  EXPECT_FALSE(pair.passes_from_share.has_value());
  ASSERT_TRUE(report->passed) << TextOf(pair);
  EXPECT_EQ(pair.chosen, AdapterMode::kQuery);
  EXPECT_NE(TextOf(pair).find("distances calibrated, without which"), std::string::npos) << TextOf(pair);

  ASSERT_TRUE(TryActivate(2).ok());
  ExpectServed(found.map, /*differs=*/true, /*generation=*/0);
  Restart();
  ExpectServed(found.map, /*differs=*/true, /*generation=*/0);
}

TEST_F(CalibratedMixture, WalksOfGraphsLoseNothingToTheOtherLegsPlainDistances) {
  World world;
  world.common =
      1'150;  // most rows of either segment are served: both are walked by all rows, as legs of one query may
  MakeWorld(world);
  const auto report = Validate();
  ASSERT_TRUE(report->passed);
  IndexSettings settings;
  settings.kind = SealedKind::kHnsw;
  ASSERT_TRUE(engine_->Rebuild("c", settings, /*wait=*/true, "", {}).ok());
  int found = 0, walked = 0, newer = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    const std::vector<float> q = NewQuery(i);
    const Ranking truth = Truth(q, report->pairs[0].ways[0].calibration->map);
    std::set<ItemId> first;
    for (size_t r = 0; r < 10; ++r) first.insert(Id(truth[r].second));
    SearchCall call = SearchFor(q, 10, 2);
    call.exact = false;
    call.ef = 15;
    call.profile = true;
    const auto answer = engine_->Search(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    for (const EngineHit& hit : answer->results[0].hits) {
      found += first.contains(hit.id);
      newer += hit.generation == 2;
    }
    for (const LegProfile& leg : answer->profile->legs) {
      for (const SegmentProfile& segment : leg.segments) {
        walked += segment.plan == SearchPlan::kWalk && !segment.fell_back;
      }
    }
  }
  EXPECT_GT(walked, 60) << "of 80: both legs walk, or this shows nothing";
  EXPECT_GT(newer, 100) << "of 400";
  EXPECT_GE(found, 370) << "of 400";
}

TEST_F(CalibratedMixture, IsNotSoughtWhereAnOperatorSaysSoAndTheDipIsRefused) {
  MakeWorld({});
  const auto report = Validate(/*calibrate=*/false);
  ASSERT_NE(report, nullptr);
  EXPECT_FALSE(report->passed);
  EXPECT_EQ(report->pairs[0].verdict, Verdict::kDips);
  EXPECT_FALSE(report->pairs[0].ways[0].calibration.has_value());
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"did not pass", "below both its ends"}));
  ASSERT_TRUE(TryActivate(2, "a test").ok());
  ExpectServed(DistanceCalibration(), /*differs=*/false, 0);
  // With one it would have passed: from then on searches rank by it, and no longer once it is switched off again.
  const auto sought = Validate();
  ASSERT_TRUE(sought->passed);
  ExpectServed(sought->pairs[0].ways[0].calibration->map, /*differs=*/true, 0);
  EXPECT_FALSE(Validate(/*calibrate=*/false)->passed);
  ExpectServed(DistanceCalibration(), /*differs=*/false, 0);
}

TEST_F(CalibratedMixture, DoesNotWinWhereBothLegsAreOnOneScaleAndAnswersStayPlain) {
  World world;
  world.old_dimension = kHidden;
  world.scale = 1;
  world.old_noise = world.new_noise = 0.45f;
  world.same_queries = true;
  MakeWorld(world);
  const auto report = Validate();
  ASSERT_NE(report, nullptr);
  const PairReport& pair = report->pairs[0];
  ASSERT_TRUE(report->passed) << TextOf(pair);
  for (const WayReport& way : pair.ways) {
    EXPECT_FALSE(way.dips);
    if (!way.in_reach) continue;
    ASSERT_TRUE(way.calibration.has_value());
    EXPECT_EQ(way.calibration->none_because, "");
    EXPECT_FALSE(way.calibration->wins);
    EXPECT_NEAR(way.calibration->map.slope, 1, 0.1);
    EXPECT_NEAR(way.calibration->map_gain.value, 0, 0.005);
  }
  EXPECT_EQ(TextOf(pair).find("calibrated"), std::string::npos);
  ASSERT_TRUE(TryActivate(2).ok());
  ExpectServed(DistanceCalibration(), /*differs=*/false, 0);
}

TEST_F(CalibratedMixture, IsNotLearntFromFewProbesOrFewItemsAndSaysSo) {
  World world;
  world.probes = 70;
  MakeWorld(world);
  const auto few_probes = Validate();
  ASSERT_TRUE(few_probes->pairs[0].ways[0].calibration.has_value());
  EXPECT_NE(few_probes->pairs[0].ways[0].calibration->none_because.find("50 of each are needed"), std::string::npos)
      << few_probes->pairs[0].ways[0].calibration->none_because;
  EXPECT_FALSE(few_probes->pairs[0].ways[0].calibration->wins);
  PutTheProbes(400);
  EXPECT_EQ(Validate()->pairs[0].ways[0].calibration->none_because, "") << "more of them are enough";
}

TEST_F(CalibratedMixture, NeedsItemsThatBothEmbedded) {
  World world;
  world.common = 30;
  MakeWorld(world);
  const auto report = Validate();
  ASSERT_TRUE(report->pairs[0].ways[0].calibration.has_value());
  EXPECT_EQ(report->pairs[0].ways[0].calibration->none_because, "both embedded 30 items; 50 are needed");
}

TEST_F(CalibratedMixture, AnotherVersionOfTheAdapterMakesItStale) {
  MakeWorld({});
  const auto report = Validate();
  ASSERT_TRUE(report->passed);
  ASSERT_TRUE(TryActivate(2).ok());
  ExpectServed(report->pairs[0].ways[0].calibration->map, /*differs=*/true);
  adapter_.offset[0] = 0.01f;
  PutTheAdapter();
  ExpectServed(DistanceCalibration(), /*differs=*/false);
  Restart();
  ExpectServed(DistanceCalibration(), /*differs=*/false);
  const auto again = Validate();
  ASSERT_TRUE(again->passed);
  ExpectServed(again->pairs[0].ways[0].calibration->map, /*differs=*/true);
}

TEST_F(CalibratedMixture, ServesCanariesTooAndARollbackLeavesItBehind) {
  MakeWorld({});
  const std::vector<float> old_query = OldModel(Draw(3));
  const auto before = Hits(SearchFor(old_query, 50));
  const auto report = Validate();
  ASSERT_TRUE(report->passed);
  const DistanceCalibration map = report->pairs[0].ways[0].calibration->map;
  SetCanaryCall canary;
  canary.collection = "c";
  canary.generation = 2;
  canary.share = 1;
  ASSERT_TRUE(engine_->SetCanary(canary).ok());
  SearchCall call = SearchFor(old_query, 50);
  call.canary_key = "somebody";
  call.queries[0].canary_vector = NewQuery(3);
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok() && answer->canary) << answer.status();
  ExpectRanking(answer->results[0].hits, Truth(call.queries[0].canary_vector, map), 50);
  ASSERT_TRUE(TryActivate(2).ok());
  ExpectServed(map, /*differs=*/true, 0);
  SwitchCall back;
  back.collection = "c";
  ASSERT_TRUE(engine_->RollbackGeneration(back).ok());
  const auto after = Hits(SearchFor(old_query, 50));
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].id, before[i].id);
    EXPECT_EQ(after[i].score, -after[i].distance);
  }
}

TEST_F(CalibratedMixture, AWayThatASearchNamesItselfIsRankedPlainly) {
  MakeWorld({});
  ASSERT_TRUE(Validate()->passed);
  const std::vector<float> q = NewQuery(1);
  SearchCall call = SearchFor(q, 50, 2);
  call.adapter_mode = AdapterMode::kQuery;
  const auto hits = Hits(call);
  ExpectRanking(hits, Truth(q, DistanceCalibration()), 50);
}

TEST_F(CalibratedMixture, QueriesOfOneCallAreRankedAsEachOfThemAlone) {
  MakeWorld({});
  const auto report = Validate();
  ASSERT_TRUE(report->passed);
  SearchCall call = SearchFor(NewQuery(0), 30, 2);
  for (uint64_t i = 1; i < 9; ++i) {
    Query query;
    query.content = NewQuery(i);
    call.queries.push_back(std::move(query));
  }
  call.queries[4].content = QueryByItem{Id(7)};  // that generation 2 has embedded
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const DistanceCalibration map = report->pairs[0].ways[0].calibration->map;
  for (size_t i = 0; i < call.queries.size(); ++i) {
    SCOPED_TRACE(i);
    Ranking truth = Truth(i == 4 ? new_rows_[7] : std::get<std::vector<float>>(call.queries[i].content), map);
    if (i == 4) {
      EXPECT_EQ(answer->results[i].hits.size(), 30u);
      for (const EngineHit& hit : answer->results[i].hits) EXPECT_NE(hit.id, Id(7)) << "it is left out";
      ASSERT_EQ(truth[0].second, 7u);
      for (size_t r = 0; r < 30; ++r) EXPECT_NEAR(-answer->results[i].hits[r].score, truth[r + 1].first, 2e-5) << r;
      continue;
    }
    ExpectRanking(answer->results[i].hits, truth, 30);
  }
}

// Records of older servers have no calibrations.
TEST_F(CalibratedMixture, ARecordWithoutTheFieldLoadsAndRanksPlainly) {
  MakeWorld({});
  ASSERT_TRUE(Validate()->passed);
  EditStore([](Store* store, WriteBatch* batch) {
    const std::string key = keys::Generation(1, 2);
    auto record = DecodeGeneration(*store->Get(Table::kGenerations, key));
    ASSERT_TRUE(record.ok()) << record.status();
    auto report = std::make_shared<ValidationReport>(*record->validation);
    for (WayReport& way : report->pairs[0].ways) way.calibration.reset();
    report->pairs[0].both.clear();
    record->validation = report;
    const std::string bytes = Encode(*record);
    EXPECT_EQ(bytes.find("calibration"), std::string::npos);
    batch->Put(Table::kGenerations, key, bytes);
  });
  engine_ = OpenEngine(folder_.path());
  ASSERT_NE(engine_, nullptr);
  EXPECT_FALSE(engine_->GetGeneration("c", 2)->validation->pairs[0].ways[0].calibration.has_value());
  ExpectServed(DistanceCalibration(), /*differs=*/false);
}

WayReport DippingWay(bool wins, bool dips) {
  WayReport way;
  way.way = AdapterMode::kItem;
  way.figures.map = {0.5, 0.5, 0.5, 100};
  way.cmc1_gain = way.map_gain = {0.1, 0.05, 0.2, 100};
  way.dips = true;
  way.calibration.emplace();
  way.calibration->map = {0.25, 1.5};
  way.calibration->wins = wins;
  way.calibration->dips = dips;
  return way;
}

TEST(Reach, GivesACalibrationToThePairAndTheGenerationThatItWasFoundFor) {
  std::vector<GenerationRecord> generations(3);
  for (uint32_t i = 0; i < 3; ++i) {
    generations[i].generation = i + 1;
    generations[i].parent = i;
    generations[i].space = Space{Metric::kCosine, 4, 1.0, 1.0};
  }
  ValidationReport report;
  report.passed = true;
  for (const uint32_t older : {1u, 2u}) {
    PairReport pair;
    pair.item_generation = older;
    pair.verdict = Verdict::kPassed;
    pair.ways = {DippingWay(/*wins=*/older == 1, false), DippingWay(/*wins=*/true, false)};
    pair.ways[0].way = pair.chosen = AdapterMode::kNone;
    report.pairs.push_back(pair);
  }
  const auto reach_by = [&](const ValidationReport& found) {
    generations[2].validation = std::make_shared<const ValidationReport>(found);
    return Reach(generations, {});
  };
  const Reach reach = reach_by(report);
  ASSERT_TRUE(reach.To(3, 1).calibration.has_value());
  EXPECT_EQ(*reach.To(3, 1).calibration, (DistanceCalibration{0.25, 1.5}));
  EXPECT_FALSE(reach.To(3, 2).calibration.has_value()) << "that of the chosen way did not win";
  EXPECT_FALSE(reach.To(3, 3).calibration.has_value()) << "its own items are the scale";
  EXPECT_FALSE(reach.To(2, 1).calibration.has_value()) << "another query generation";
  EXPECT_FALSE(reach.To(3, 1, AdapterMode::kNone).calibration.has_value()) << "a way that the search names";
  ValidationReport other = report;
  other.passed = false;
  EXPECT_FALSE(reach_by(other).To(3, 1).calibration.has_value());
  other = report;
  other.adapters[{1, 3}] = 7;
  EXPECT_FALSE(reach_by(other).To(3, 1).calibration.has_value()) << "it saw an adapter that is gone";
  generations[1].retired = true;
  other = report;
  other.adapters[{2, 3}] = 7;
  EXPECT_TRUE(reach_by(other).To(3, 1).calibration.has_value())
      << "the adapter left with a generation that was retired";
  EXPECT_TRUE(reach_by(other).Saw(3, {}));
  EXPECT_FALSE(reach_by(other).Saw(3, {{{1, 3}, 7}}));
  generations[1].retired = false;
  other = report;
  other.pairs[0].replaced = true;
  EXPECT_FALSE(reach_by(other).To(3, 1).calibration.has_value());
}

TEST(Decide, ADipThatAWinningCalibrationMendsIsNone) {
  const auto verdict = [](const WayReport& way) {
    PairReport pair;
    pair.ways = {way};
    Decide(0.02, {}, &pair);
    return pair.verdict;
  };
  EXPECT_EQ(verdict(DippingWay(/*wins=*/true, /*dips=*/false)), Verdict::kPassed);
  EXPECT_EQ(verdict(DippingWay(/*wins=*/true, /*dips=*/true)), Verdict::kDips);
  EXPECT_EQ(verdict(DippingWay(/*wins=*/false, /*dips=*/false)), Verdict::kDips);
}

TEST(ValidationRecord, ACalibrationComesBackAsItWasAndDamageIsNamed) {
  ValidationReport report;
  PairReport pair;
  pair.ways = {DippingWay(/*wins=*/true, /*dips=*/false), DippingWay(false, false), WayReport()};
  pair.ways[0].calibration->map = {-0.1, 1.0 / 3};
  pair.ways[0].calibration->map_gain = {0.1, 0.05, 0.2, 77};
  pair.ways[0].calibration->mixture = {{0.25, 0.5, 0.75}};
  pair.ways[1].calibration.emplace().none_because = "too few";
  report.pairs = {pair};
  const std::string bytes = Encode(report);
  const auto read = DecodeValidation(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Encode(*read), bytes);
  const std::vector<WayReport>& ways = read->pairs[0].ways;
  EXPECT_EQ(ways[0].calibration->map, pair.ways[0].calibration->map);
  EXPECT_TRUE(ways[0].calibrated());
  EXPECT_EQ(ways[0].calibration->map_gain.samples, 77);
  EXPECT_EQ(ways[0].calibration->mixture[0].map, 0.75);
  EXPECT_EQ(ways[1].calibration->none_because, "too few");
  EXPECT_FALSE(ways[1].calibrated());
  EXPECT_FALSE(ways[2].calibration.has_value());
  for (const char* slope : {"0", "-1", "\"1\"", "1e7"}) {
    std::string bad = bytes;
    const size_t at = bad.find("\"slope\":") + 8;
    bad.replace(at, bad.find_first_of(",}", at) - at, slope);
    EXPECT_TRUE(Fails(DecodeValidation(bad), Code::kDataLoss, {"pairs"})) << slope;
  }
}

}  // namespace
}  // namespace lightcone::server
