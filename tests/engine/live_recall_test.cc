// Live recall: what sampled searches show, and what it may cost.
#include "server/engine/core/engine_impl.h"
#include "server/engine/live/live_breadths.h"
#include "server/engine/live/live_figures.h"
#include "server/engine/live/live_sampler.h"
#include "tests/engine/engine_testing.h"

namespace lightcone::server {
namespace {

constexpr int kItems = 3'000;

LiveRecallOptions Everything() { return {.sample_share = 1, .capacity_share_max = 1, .queue_max = 1'000}; }

class LiveRecallTest : public EngineTest {
 protected:
  void SetUp() override { Open(Everything()); }
  void Open(const LiveRecallOptions& live) {
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    options.live_recall = live;
    engine_ = OpenEngine(options);
  }
  // Of so many dimensions that a narrow walk of the graph misses neighbours.
  static constexpr int kWide = 32;
  void MakeWide(int generations = 1) {
    CreateCollectionCall create;
    create.name = "c";
    ASSERT_TRUE(engine_->CreateCollection(create).ok());
    for (int g = 1; g <= generations; ++g) {
      RegisterCall call;
      call.collection = "c";
      call.manifest_json = ManifestFor(kWide);
      call.parent = static_cast<uint32_t>(g - 1);
      ASSERT_TRUE(engine_->RegisterGeneration(call).ok());
    }
    Activate(1);
  }
  // A gallery in one sealed graph.
  void Fill(int items = kItems) {
    std::mt19937 random(7);
    UpsertBatch batch = BatchOf({});
    for (int i = 0; i < items; ++i) {
      const std::string payload = StrCat("{\"class\":", i % 100, "}");
      batch.items.push_back(ItemOf(Id(static_cast<uint64_t>(i)), RandomVector(&random, kWide), payload));
    }
    Write(std::move(batch));
    Seal();
  }
  void Seal() {
    const auto built = engine_->Rebuild("c", {}, true, "", {});
    ASSERT_TRUE(built.ok()) << built.status();
  }
  void Ask(int count, int ef, std::optional<FilterNode> filter = std::nullopt, uint32_t generation = 0) {
    std::mt19937 random(11);
    for (int i = 0; i < count; ++i) {
      SearchCall call = SearchFor(RandomVector(&random, kWide), 10, generation);
      call.exact = false;
      call.ef = ef;
      call.filter = filter;
      Hits(call);
    }
  }
  LiveRecallStatus Status() {
    EXPECT_TRUE(static_cast<EngineImpl*>(engine_.get())->live_sampler().WaitIdle(absl::Now() + absl::Minutes(2)));
    const auto status = engine_->GetLiveRecall("c");
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : LiveRecallStatus{};
  }
};

double RecallOf(const LiveRecall& recall) {
  return static_cast<double>(recall.found) / static_cast<double>(recall.expected);
}

TEST_F(LiveRecallTest, AnIndexThatIsSearchedTooNarrowlyShowsWithoutLabelsUnlessNoBreadthIsNamed) {
  MakeWide();
  Fill();
  Ask(100, 400);
  const LiveRecallStatus good = Status();
  EXPECT_EQ(good.samples, 100u);
  EXPECT_EQ(good.failures, 0u);
  ASSERT_EQ(good.recall.size(), 1u);
  EXPECT_EQ(good.recall[0].query_generation, 1u);
  EXPECT_EQ(good.recall[0].item_generation, 1u);
  EXPECT_EQ(good.recall[0].segment, "hnsw");
  EXPECT_EQ(good.recall[0].filter, "none");
  EXPECT_EQ(good.recall[0].expected, 1'000u);
  EXPECT_GE(RecallOf(good.recall[0]), 0.99);

  Ask(100, 1);
  const LiveRecall narrow = Status().recall[0];
  EXPECT_EQ(narrow.expected, 2'000u);
  const double lately = static_cast<double>(narrow.found - good.recall[0].found) / 1'000;
  EXPECT_LT(lately, 0.95) << "it does not show";
  EXPECT_LT(narrow.recent_found / narrow.recent_expected, RecallOf(good.recall[0]) - 0.02);

  // Settings as narrow as that are no more than a wish: what was measured decides.
  IndexChange settings;
  settings.hnsw_ef_search = 1;
  ASSERT_TRUE(engine_->Rebuild("c", settings, true, "", {}).ok());
  Ask(100, 0);
  EXPECT_GE(static_cast<double>(Status().recall[0].found - narrow.found) / 1'000, 0.95);
}

TEST_F(LiveRecallTest, IsToldByGenerationSegmentAndFilter) {
  MakeWide(2);
  Fill();
  Activate(2);
  std::mt19937 random(3);
  UpsertBatch batch = BatchOf({}, 2);
  for (uint64_t i = 0; i < 500; ++i) batch.items.push_back(ItemOf(Id(10'000 + i), RandomVector(&random, kWide)));
  Write(std::move(batch));
  Ask(20, 400);
  Ask(20, 400, Leaf(FilterNode::Kind::kEquals, "class", {FilterValue{int64_t{5}}}));
  std::map<std::string, uint64_t> expected;
  for (const LiveRecall& recall : Status().recall) {
    EXPECT_EQ(recall.query_generation, 2u);
    expected[StrCat(recall.item_generation, " ", recall.segment, " ", recall.filter)] = recall.expected;
    EXPECT_GE(RecallOf(recall), 0.95);
  }
  EXPECT_EQ(expected["1 hnsw none"] + expected["2 growing none"], 200u);
  EXPECT_GT(expected["2 growing none"], 0u);
  EXPECT_EQ(expected["1 hnsw narrow"], 200u);
}

TEST_F(LiveRecallTest, AFilterOnUncertaintyIsOfTheClassOfItsShare) {
  MakeWide();
  Fill();
  FilterNode filter = Leaf(FilterNode::Kind::kRange, "$uncertainty");
  filter.less = FilterValue{1.0};  // all of them
  Ask(5, 400, filter);
  filter.less = FilterValue{0.0};
  Ask(5, 400, filter);
  const LiveRecallStatus status = Status();
  EXPECT_EQ(status.samples, 10u);
  ASSERT_EQ(status.recall.size(), 1u) << "nothing is as sure as that";
  EXPECT_EQ(status.recall[0].filter, "broad");
  EXPECT_EQ(status.recall[0].expected, 50u);
}

TEST_F(LiveRecallTest, HitsOfEquallyMadeGalleriesDoNotDrift) {
  MakeWide(2);
  Fill();
  Ask(20, 400);
  Activate(2);
  std::mt19937 random(3);
  UpsertBatch batch = BatchOf({}, 2);
  for (uint64_t i = 0; i < 3'000; ++i) batch.items.push_back(ItemOf(Id(10'000 + i), RandomVector(&random, kWide)));
  Write(std::move(batch));
  Ask(40, 400);
  int seen = 0;
  for (const LiveSpread& spread : Status().spreads) {
    EXPECT_LE(spread.quantiles[0], spread.quantiles[2]);
    if (spread.query_generation == 1) {
      EXPECT_FALSE(spread.drift) << "the first generation has nothing to be compared with";
      continue;
    }
    ASSERT_TRUE(spread.drift) << spread.item_generation << spread.quantity;
    EXPECT_LT(*spread.drift, spread.item_generation == 1 ? 0.3 : 1) << "equally made galleries, searched together";
    ++seen;
  }
  EXPECT_EQ(seen, 4);
}

TEST_F(LiveRecallTest, ExactAndEvaluatingSearchesAreLeftOut) {
  MakeWide();
  Fill(200);
  std::mt19937 random(1);
  SearchCall call = SearchFor(RandomVector(&random, kWide));
  Hits(call);
  call.exact = false;
  call.evaluate_generations = {1};
  Hits(call);
  EXPECT_EQ(Status().samples, 0u);
}

TEST_F(LiveRecallTest, NothingIsRepeatedWhereTheShareIsZeroAndTheDroppedAreCounted) {
  Open({.sample_share = 0});
  MakeWide();
  Fill(200);
  Ask(20, 400);
  EXPECT_EQ(Status().samples, 0u);
  EXPECT_EQ(engine_->LiveSampling().dropped_total, 0u);
  EngineOptions options = OptionsFor(folder_.path());
  options.live_recall.sample_share = 1.5;
  EXPECT_TRUE(
      Fails(Engine::Open(options), absl::StatusCode::kInvalidArgument, {"live_recall.sample_share", "1.5", "0 .. 1"}));
}

TEST_F(LiveRecallTest, ACollectionMayBeDroppedWhileItsSearchesWait) {
  MakeWide();
  Fill(500);
  Ask(200, 100);
  ASSERT_TRUE(engine_->DropCollection("c", "").ok());
  EXPECT_TRUE(static_cast<EngineImpl*>(engine_.get())->live_sampler().WaitIdle(absl::Now() + absl::Minutes(2)));
  EXPECT_TRUE(Fails(engine_->GetLiveRecall("c"), absl::StatusCode::kNotFound, {"'c'"}));
}

TEST(LiveFiguresTest, ANewGenerationWhoseHitsAreFurtherAwayDrifts) {
  LiveFigures figures;
  const auto hits = [](uint32_t generation, double from) {
    std::vector<EngineHit> out(10);
    for (size_t i = 0; i < out.size(); ++i) {
      out[i].id = Id(i);
      out[i].distance = from + 0.01 * static_cast<double>(i);
      out[i].uncertainty = 0.5;
      out[i].generation = generation;
      out[i].segment = "hnsw";
    }
    return out;
  };
  for (int i = 0; i < 10; ++i) {
    figures.Record(1, "none", hits(1, 1.0), hits(1, 1.0));
    figures.Record(2, "none", hits(2, 2.0), hits(2, 2.0));
    figures.Record(2, "none", hits(1, 2.05), {});
  }
  std::map<std::string, std::optional<double>> drift;
  for (const LiveSpread& spread : figures.Status().spreads) {
    drift[StrCat(spread.quantity, spread.query_generation, spread.item_generation)] = spread.drift;
  }
  EXPECT_EQ(drift["distance11"], std::nullopt) << "no generation served before";
  EXPECT_EQ(drift["distance22"], 1.0) << "against the hits of generation 1's queries";
  EXPECT_DOUBLE_EQ(drift["distance21"].value_or(-1), 0.5) << "against those of its own items";
  EXPECT_EQ(drift["uncertainty22"], 0.0);
}

class LiveBreadthsTest : public testing::Test {
 protected:
  // Sampled searches, one a second, of which each finds so many of ten hits.
  void Ask(uint32_t items, double found, int searches) {
    for (int i = 0; i < searches; ++i, now_ += absl::Seconds(1)) breadths_.Record(2, items, 10, found, now_);
  }
  LiveBreadths breadths_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(LiveBreadthsTest, RecallBelowThePromiseForAMinuteDoublesTheBreadthOfThatPairAlone) {
  Ask(1, 9, 15);
  Ask(2, 10, 15);
  EXPECT_EQ(breadths_.FactorOf(2, 1), 1) << "too few, and not for a minute";
  Ask(1, 9, 60);
  EXPECT_EQ(breadths_.FactorOf(2, 1), 2);
  EXPECT_EQ(breadths_.FactorOf(2, 2), 1);
  EXPECT_EQ(breadths_.FactorOf(1, 1), 1);
  Ask(1, 9.2, 90);
  Ask(1, 9.4, 90);
  EXPECT_EQ(breadths_.FactorOf(2, 1), LiveBreadths::kFactorMax);
  ASSERT_EQ(breadths_.Status().size(), 1u);
  EXPECT_EQ(breadths_.Status()[0].item_generation, 1u);
  Ask(1, 10, 4'000);
  EXPECT_EQ(breadths_.FactorOf(2, 1), 1) << "ten minutes of nearly everything found halve it";
}

TEST_F(LiveBreadthsTest, ADoublingThatGainsNothingIsUndone) {
  Ask(1, 8, 80);
  ASSERT_EQ(breadths_.FactorOf(2, 1), 2);
  Ask(1, 8, 80);
  EXPECT_EQ(breadths_.FactorOf(2, 1), 1);
  Ask(1, 8, 3'000);
  EXPECT_EQ(breadths_.FactorOf(2, 1), 1) << "and not tried again for an hour";
  Ask(1, 8, 640);
  EXPECT_EQ(breadths_.FactorOf(2, 1), 2);
}

TEST_F(LiveRecallTest, SearchesThatNameABreadthDoNotChangeThatOfOthers) {
  MakeWide();
  Fill();
  Ask(200, /*ef=*/1);
  ASSERT_TRUE(engine_->GetLiveRecall("c").ok());
  EXPECT_TRUE(engine_->GetLiveRecall("c")->breadths.empty());
}

TEST(LiveFiguresTest, EachHitStandsForOneThatIsAsNear) {
  const auto hits = [](const std::vector<std::pair<uint64_t, double>>& of) {
    std::vector<EngineHit> out(of.size());
    for (size_t i = 0; i < of.size(); ++i) {
      out[i].id = Id(of[i].first);
      out[i].distance = of[i].second;
      out[i].segment = "hnsw";
    }
    return out;
  };
  LiveFigures figures;
  // 1 is found, 7 stands for 2, 8 for 3; nothing for 4, since 1 stands for itself; and 5 is lost, for 9 is farther.
  figures.Record(1, "none", hits({{1, 0.5}, {7, 0.5}, {8, 0.5}, {9, 0.75}}),
                 hits({{1, 0.5}, {2, 0.5}, {3, 0.5}, {4, 0.5}, {5, 0.625}}));
  const LiveRecallStatus status = figures.Status();
  ASSERT_EQ(status.recall.size(), 1u);
  EXPECT_EQ(status.recall[0].expected, 5u);
  EXPECT_EQ(status.recall[0].found, 3u);
  EXPECT_EQ(status.recall[0].recent_found, 3);

  // Of 200 items of one vector a walk may give any ten.
  LiveFigures same;
  std::vector<std::pair<uint64_t, double>> last, first;
  for (uint64_t i = 0; i < 10; ++i) first.emplace_back(i, 0.0), last.emplace_back(190 + i, 0.0);
  same.Record(1, "none", hits(last), hits(first));
  EXPECT_EQ(same.Status().recall.at(0).found, 10u);
}

TEST(TimeBudgetTest, WorkIsSpacedSoThatItsShareOfTheTimeHolds) {
  TimeBudget budget(0.04);  // two cores, 2 %
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_LE(budget.Wait(now), absl::ZeroDuration());
  const absl::Time start = now;
  absl::Duration spent;
  for (int i = 0; i < 100; ++i) {
    now += std::max(absl::ZeroDuration(), budget.Wait(now));
    const absl::Duration cost = absl::Milliseconds(1 + i % 7);
    budget.Spend(now, cost);
    now += cost;
    spent += cost;
  }
  now += std::max(absl::ZeroDuration(), budget.Wait(now));
  EXPECT_NEAR(absl::FDivDuration(spent, now - start), 0.04, 1e-6);
  now += absl::Hours(1);  // idle time is not saved up
  budget.Spend(now, absl::Milliseconds(4));
  EXPECT_EQ(budget.Wait(now), absl::Milliseconds(100));
}

TEST(LiveSamplerTest, ChoosesTheShareAndDropsWhatDoesNotFit) {
  LiveSampler sampler({.sample_share = 0.25, .capacity_share_max = 1, .queue_max = 2}, 1);
  int chosen = 0;
  for (int i = 0; i < 10'000; ++i) chosen += sampler.Chosen();
  EXPECT_NEAR(chosen, 2'500, 150);

  absl::Mutex mutex;
  bool began = false, go = false;
  sampler.Offer([&](const CallContext&) {
    absl::MutexLock lock(&mutex);
    began = true;
    mutex.Await(absl::Condition(&go));
  });
  {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&began));
  }
  int ran = 0;
  for (int i = 0; i < 5; ++i) sampler.Offer([&](const CallContext&) { ++ran; });
  EXPECT_EQ(sampler.Status().dropped_total, 3u);
  {
    absl::MutexLock lock(&mutex);
    go = true;
  }
  ASSERT_TRUE(sampler.WaitIdle(absl::Now() + absl::Minutes(1)));
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(sampler.Status().repeated_total, 3u);
}

TEST(DistributionDistanceTest, IsZeroForEqualAndOneForDisjointSamples) {
  EXPECT_EQ(DistributionDistance({3, 1, 2}, {1, 2, 3}), 0);
  EXPECT_EQ(DistributionDistance({1, 2, 3}, {4, 5}), 1);
  EXPECT_DOUBLE_EQ(DistributionDistance({1, 2, 3, 4}, {3, 4, 5, 6}), 0.5);
  EXPECT_DOUBLE_EQ(DistributionDistance({1, 1, 1, 2}, {1, 2, 2, 2}), 0.5) << "ties step together";
}

}  // namespace
}  // namespace lightcone::server
