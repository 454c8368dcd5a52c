// Searches whose queries carry vectors of two generations, against a naive truth; and what a validation makes of them.
#include "server/engine/validation/both_queries.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>

#include "adapter_world.h"
#include "server/engine/search/fused_leg.h"
#include "server/engine/validation/validation.h"
#include "stats/distance_fusion.h"
#include "stats/query_likeness.h"
#include "validated.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

// Two generations that know nothing of each other, and queries by both.
class BothQueries : public AdapterTest {
 protected:
  static constexpr double kWeight = OlderShare().weight;

  SearchCall AskBoth(const std::vector<float>& q, const std::vector<float>& old_q, int64_t k, bool exact = true) {
    SearchCall call = Ask(q, k, AdapterMode::kDefault, exact);
    call.queries[0].older_vectors = {{1, old_q}};
    call.profile = true;
    return call;
  }

  // Rows that searches learn from: evenly spread over those of generation 1.
  static std::vector<uint64_t> SampledIds() {
    std::vector<uint64_t> ids;
    for (uint64_t n = 0; n < 512; ++n) ids.push_back(1 + n * kOldRows / 512);
    return ids;
  }

  double NewDistance(const std::vector<float>& q, const std::vector<float>& row, AdapterMode mode) const {
    return mode == AdapterMode::kQuery ? DistanceNaively(old_, CarriedNaively(query_, q), old_, Doubles(row))
                                       : DistanceNaively(new_, Doubles(q), new_, CarriedNaively(item_, row));
  }

  // A query's distances to items of generation 2, the scale of what both vectors say of items of generation 1.
  std::vector<double> OwnDistances(const std::vector<float>& q) const {
    std::vector<double> own;
    for (const auto& [id, z] : new_rows_) own.push_back(DistanceNaively(new_, Doubles(q), new_, Doubles(z)));
    return own;
  }

  Ranking TruthByBoth(const std::vector<float>& q, const std::vector<float>& old_q, AdapterMode mode) const {
    std::vector<double> older, newer;
    for (const uint64_t id : SampledIds()) {
      older.push_back(DistanceNaively(old_, Doubles(old_q), old_, Doubles(old_rows_.at(id))));
      newer.push_back(NewDistance(q, old_rows_.at(id), mode));
    }
    const DistanceFusion fusion = DistanceFusion::Make(older, newer, kWeight).OnScaleOf(OwnDistances(q), older, newer);
    Ranking all = Truth(q, AdapterMode::kNone);  // items of generation 2, by the plain distance
    for (const auto& [id, z] : old_rows_) {
      all.emplace_back(fusion.Of(DistanceNaively(old_, Doubles(old_q), old_, Doubles(z)), NewDistance(q, z, mode)), id);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  void ExpectBoth(AdapterMode mode, const std::string& what) {
    for (const bool exact : {true, false}) {
      for (const int64_t k : {int64_t{12}, int64_t{2'000}}) {
        const std::vector<float> q = RandomVector(&random_, new_.dimension, 0.6f);
        const std::vector<float> old_q = RandomVector(&random_, old_.dimension, 0.6f);
        ExpectRanking(Hits(AskBoth(q, old_q, k, exact)), TruthByBoth(q, old_q, mode), k,
                      StrCat(what, " k ", k, " exact ", exact));
        if (HasFatalFailure()) return;
      }
    }
  }
};

TEST_F(BothQueries, RankOldItemsBesideAnItemAdapterAsBruteForceDoes) {
  MakeWorld();
  Put(item_);
  ExpectBoth(AdapterMode::kItem, "item");
  Restart();
  ExpectBoth(AdapterMode::kItem, "item, after a restart");
}

TEST_F(BothQueries, RankOldItemsBesideAQueryAdapterOfAnotherDimension) {
  MakeWorld(Metric::kEuclidean, 5, 7);
  Put(query_);
  ExpectBoth(AdapterMode::kQuery, "query");
}

TEST_F(BothQueries, AreOnTheScaleOfTheItemsThatBothGenerationsEmbedded) {
  MakeWorld();
  Put(item_);
  // The new model puts these far from all others, so that rows of each generation say nothing of one scale.
  std::map<uint64_t, std::vector<float>> both;
  UpsertBatch batch = BatchOf({}, 2, /*same_content=*/true);
  for (uint64_t id = 10; id <= 400; id += 10) {
    std::vector<float> z = RandomVector(&random_, new_.dimension, 0.6f);
    for (float& x : z) x += 1;
    both[id] = z;
    batch.items.push_back(ItemOf(Id(id), std::move(z)));
  }
  Write(std::move(batch));
  const std::vector<float> q = RandomVector(&random_, new_.dimension, 0.6f);
  const std::vector<float> old_q = RandomVector(&random_, old_.dimension, 0.6f);
  std::vector<double> older, newer, scale_older, scale_newer, own;
  for (const uint64_t id : SampledIds()) {
    older.push_back(DistanceNaively(old_, Doubles(old_q), old_, Doubles(old_rows_.at(id))));
    newer.push_back(NewDistance(q, old_rows_.at(id), AdapterMode::kItem));
  }
  for (const auto& [id, z] : both) {
    scale_older.push_back(DistanceNaively(old_, Doubles(old_q), old_, Doubles(old_rows_.at(id))));
    scale_newer.push_back(NewDistance(q, old_rows_.at(id), AdapterMode::kItem));
    own.push_back(DistanceNaively(new_, Doubles(q), new_, Doubles(z)));
  }
  const DistanceFusion fusion = DistanceFusion::Make(older, newer, kWeight).OnScaleOf(own, scale_older, scale_newer);
  Ranking truth = Truth(q, AdapterMode::kNone);
  size_t place = 0;
  for (const auto& [id, z] : both) truth.emplace_back(own[place++], id);
  for (const auto& [id, z] : old_rows_) {
    if (both.contains(id)) continue;
    truth.emplace_back(
        fusion.Of(DistanceNaively(old_, Doubles(old_q), old_, Doubles(z)), NewDistance(q, z, AdapterMode::kItem)), id);
  }
  std::sort(truth.begin(), truth.end());
  for (const bool exact : {true, false}) {
    ExpectRanking(Hits(AskBoth(q, old_q, 50, exact)), truth, 50, StrCat("exact ", exact));
  }
}

TEST_F(BothQueries, AnExactSearchFindsWhatIsFarByEitherAlone) {
  MakeWorld();
  Put(item_);
  // Queries that disagree: the best by both are far behind the first hits of either.
  const std::vector<float> q = RandomVector(&random_, new_.dimension, 2.0f);
  std::vector<float> old_q = RandomVector(&random_, old_.dimension, 2.0f);
  for (int64_t k = 1; k <= 600; k *= 5) {
    ExpectRanking(Hits(AskBoth(q, old_q, k)), TruthByBoth(q, old_q, AdapterMode::kItem), k, StrCat("k ", k));
  }
  SearchCall second = AskBoth(q, old_q, 10);
  second.offset = 10;
  std::vector<EngineHit> pages = Hits(AskBoth(q, old_q, 10)), rest = Hits(second);
  pages.insert(pages.end(), rest.begin(), rest.end());
  ExpectRanking(pages, TruthByBoth(q, old_q, AdapterMode::kItem), 20, "pages");
}

TEST_F(BothQueries, ReachOldItemsByTheOlderVectorAloneWhereNoOtherWayIsOpen) {
  MakeWorld();
  const std::vector<float> q = RandomVector(&random_, 6, 0.6f), old_q = RandomVector(&random_, 6, 0.6f);
  const auto without = engine_->Search(Ask(q, 1'000), {});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->out_of_reach, kOldRows);
  const auto with = engine_->Search(AskBoth(q, old_q, 1'000), {});
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->out_of_reach, 0u);
  ASSERT_EQ(with->results[0].hits.size(), kOldRows + kNewRows);
  std::vector<std::pair<double, uint64_t>> expected;
  for (const auto& [id, z] : old_rows_) {
    expected.emplace_back(DistanceNaively(old_, Doubles(old_q), old_, Doubles(z)), id);
  }
  std::sort(expected.begin(), expected.end());
  std::vector<double> old_hits, new_hits;
  for (const EngineHit& hit : with->results[0].hits) {
    if (hit.generation == 1) {
      EXPECT_EQ(hit.id, Id(expected[old_hits.size()].second)) << "rank " << old_hits.size();
    }
    (hit.generation == 1 ? old_hits : new_hits).push_back(hit.distance);
  }
  // Of so few new items the nearest 32 tell the scale, and the same part of the old ones. Hits are in order.
  const auto nearest = [](const std::vector<double>& hits) {
    return DistanceScale::Of(std::span(hits).first(hits.size() * 32 / kNewRows));
  };
  const DistanceScale of_old = nearest(old_hits), of_new = nearest(new_hits);
  EXPECT_NEAR(of_old.mean, of_new.mean, 0.1 * of_new.deviation) << "both are on the scale of the new items";
  EXPECT_NEAR(of_old.deviation, of_new.deviation, 0.1 * of_new.deviation);
  ASSERT_EQ(with->profile->legs.size(), 2u);
  EXPECT_FALSE(with->profile->legs[0].fused);
  EXPECT_EQ(with->profile->legs[0].older_weight, 1);
  // A call whose other query carries none does not reach them all.
  SearchCall mixed = AskBoth(q, old_q, 5);
  mixed.queries.emplace_back().content = q;
  EXPECT_EQ(engine_->Search(mixed, {})->out_of_reach, kOldRows);
}

TEST_F(BothQueries, SayInTheProfileHowALegWasRankedAndKeepToDeadlines) {
  MakeWorld();
  Put(item_);
  const SearchCall call = AskBoth(RandomVector(&random_, 6, 0.6f), RandomVector(&random_, 6, 0.6f), 10);
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->profile->legs.size(), 2u);
  EXPECT_TRUE(answer->profile->legs[0].fused);
  EXPECT_EQ(answer->profile->legs[0].older_weight, kWeight);
  EXPECT_FALSE(answer->profile->legs[1].fused) << "items of the generation that is asked";
  EXPECT_EQ(answer->profile->legs[1].older_weight, 0);
  CallContext late;
  late.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_TRUE(Fails(engine_->Search(call, late), Code::kDeadlineExceeded, {"deadline"}));
  CallContext gone;
  std::atomic<int> asked{0};
  gone.cancelled = [&] { return ++asked > 1; };
  EXPECT_EQ(engine_->Search(call, gone).status().code(), Code::kCancelled);
}

TEST_F(BothQueries, RankGroupsOfHits) {
  MakeWorld();
  Put(item_);
  std::vector<UpsertItem> items;
  for (uint64_t id = 1; id <= kOldRows; ++id)
    items.push_back(ItemOf(Id(id), old_rows_[id], StrCat("{\"g\":", id % 7, "}")));
  Write(BatchOf(std::move(items), 1));
  const std::vector<float> q = RandomVector(&random_, 6, 0.6f), old_q = RandomVector(&random_, 6, 0.6f);
  for (const bool exact : {true, false}) {
    SearchCall call = AskBoth(q, old_q, 700, exact);
    EngineHit best;
    for (const EngineHit& hit : Hits(call)) {
      if (hit.generation != 1) continue;
      best = hit;
      break;
    }
    call.k = 0;
    call.group_by = GroupBy{"g", 3, 1};
    const auto answer = engine_->Search(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->results[0].groups.size(), 3u);
    EXPECT_EQ(answer->results[0].groups[0].hits[0].id, best.id);
    EXPECT_NEAR(answer->results[0].groups[0].hits[0].distance, best.distance, 1e-6);
  }
}

TEST_F(BothQueries, AreRefusedByField) {
  MakeWorld();
  const std::vector<float> good(6, 0.5f);
  const auto error = [&](std::vector<OlderVector> older) {
    SearchCall call = Ask(good, 5);
    call.queries[0].older_vectors = std::move(older);
    const auto answer = engine_->Search(call, {});
    return answer.ok() ? answer->results[0].status : answer.status();
  };
  EXPECT_TRUE(error({{1, good}}).ok());
  EXPECT_TRUE(Fails(error({{0, good}}), Code::kInvalidArgument, {"queries[0].older_vectors[0].generation", "1 .. 1"}));
  EXPECT_TRUE(Fails(error({{9, good}}), Code::kInvalidArgument, {"queries[0].older_vectors[0].generation", "9"}));
  EXPECT_TRUE(Fails(error({{2, good}}), Code::kInvalidArgument, {"queries[0].older_vectors[0].generation", "2"}));
  EXPECT_TRUE(
      Fails(error({{1, good}, {1, good}}), Code::kInvalidArgument, {"queries[0].older_vectors[1].generation", "once"}));
  EXPECT_TRUE(Fails(error({{1, {1, 2, 3}}}), Code::kInvalidArgument, {"queries[0].older_vectors[0].vector"}));
  std::vector<float> bad = good;
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(Fails(error({{1, bad}}), Code::kInvalidArgument, {"queries[0].older_vectors[0].vector"}));
  SearchCall by_item = Ask(good, 5);
  by_item.queries[0].content = QueryByItem{Id(1'001)};
  by_item.queries[0].older_vectors = {{1, good}};
  const auto answer = engine_->Search(by_item, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Fails(answer->results[0].status, Code::kInvalidArgument, {"queries[0].older_vectors"}));
  SearchCall oldest = Ask(good, 5);
  oldest.generation = 1;
  oldest.queries[0].older_vectors = {{1, good}};
  EXPECT_TRUE(Fails(engine_->Search(oldest, {})->results[0].status, Code::kInvalidArgument, {"oldest"}));
}

TEST_F(BothQueries, ServeACanaryToo) {
  MakeWorld();
  Put(item_);
  SetCanaryCall canary;
  canary.collection = "c";
  canary.generation = 2;
  canary.share = 1;
  ASSERT_TRUE(engine_->SetCanary(canary).ok());
  const std::vector<float> q = RandomVector(&random_, 6, 0.6f), old_q = RandomVector(&random_, 6, 0.6f);
  SearchCall call = SearchFor(old_q, 20);
  call.queries[0].canary_vector = q;
  call.queries[0].older_vectors = {{1, old_q}};
  const std::vector<EngineHit> by_active = Hits(call);
  EXPECT_EQ(by_active[0].generation, 1u) << "beside a canary's vector it is for the canary alone";
  call.canary_key = "somebody";
  ExpectRanking(Hits(call), TruthByBoth(q, old_q, AdapterMode::kItem), 20, "canary");
}

// Items are pairs of a point on one circle and one on another. The old model's queries know the first point alone, the
// new one's the second: neither knows which of the items that share it is meant.
class TwoCircles : public EngineTest {
 protected:
  static constexpr uint64_t kFirst = 30, kSecond = 10, kItems = kFirst * kSecond;

  void MakeWorld() {
    CreateCollectionCall call;
    call.name = "c";
    call.metric = Metric::kEuclidean;
    ASSERT_TRUE(engine_->CreateCollection(call).ok());
    for (int g = 1; g <= 2; ++g) Register(0);
    Activate(1);
    std::vector<UpsertItem> items;
    for (uint64_t id = 0; id < kItems; ++id) {
      items.push_back(ItemOf(Id(id), RowOf(id, true, true), StrCat("{\"first\":", id / kSecond, "}")));
    }
    Write(BatchOf(std::move(items), 1));
    AdapterSpec adapter;
    adapter.direction = AdapterDirection::kItem;
    adapter.kind = AdapterKind::kAffine;
    adapter.input_dimension = kDimension;
    adapter.target = Space{Metric::kEuclidean, kDimension, 1.0, 2.0};
    adapter.offset.assign(kDimension, 0.0f);
    for (int i = 0; i < kDimension * kDimension; ++i) adapter.linear.push_back(i % (kDimension + 1) == 0 ? 1 : 0);
    const auto put = engine_->PutAdapter({"", "c", 1, 2, FileOf(adapter)});
    ASSERT_TRUE(put.ok()) << put.status();
  }

  static std::vector<float> RowOf(uint64_t id, bool first, bool second) {
    const double a = 2 * M_PI * static_cast<double>(id / kSecond) / static_cast<double>(kFirst);
    const double b = 2 * M_PI * static_cast<double>(id % kSecond) / static_cast<double>(kSecond);
    return {first ? static_cast<float>(std::cos(a)) : 0, first ? static_cast<float>(std::sin(a)) : 0,
            second ? static_cast<float>(std::cos(b)) : 0, second ? static_cast<float>(std::sin(b)) : 0};
  }
  static SearchCall AskOld(uint64_t id) { return SearchFor(RowOf(id, true, false), 1, 1); }
  static SearchCall AskNew(uint64_t id) { return SearchFor(RowOf(id, false, true), 1, 2); }
  static SearchCall AskBoth(uint64_t id, bool exact) {
    SearchCall call = AskNew(id);
    call.queries[0].older_vectors = {{1, RowOf(id, true, false)}};
    call.exact = exact;
    call.profile = true;
    return call;
  }
  double WeightInForce() {
    const auto answer = engine_->Search(AskBoth(7, true), {});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->profile->legs.at(0).older_weight : -1;
  }

  void PutTheProbes() {
    PutProbesCall call{"", "c", "daily", "", {}};
    for (uint64_t id = 0; id < kItems; ++id) {
      Probe probe;
      probe.vectors = {{1, RowOf(id, true, false)}, {2, RowOf(id, false, true)}};
      probe.relevant = {Id(id)};
      call.probes.push_back(std::move(probe));
    }
    const auto put = engine_->PutProbes(call);
    ASSERT_TRUE(put.ok()) << put.status();
  }
};

TEST_F(TwoCircles, BothQueriesFindWhatNeitherFindsAlone) {
  MakeWorld();
  uint64_t by_old = 0, by_new = 0, by_both = 0, walked = 0;
  for (uint64_t id = 0; id < kItems; ++id) {
    by_old += Hits(AskOld(id))[0].id == Id(id);
    by_new += Hits(AskNew(id))[0].id == Id(id);
    by_both += Hits(AskBoth(id, true))[0].id == Id(id);
    walked += Hits(AskBoth(id, false))[0].id == Id(id);
  }
  EXPECT_LT(by_old, kItems / 3);
  EXPECT_LT(by_new, kItems / 3);
  EXPECT_EQ(by_both, kItems);
  EXPECT_EQ(walked, kItems);
}

TEST_F(TwoCircles, BothQueriesKeepToFiltersAndBounds) {
  MakeWorld();
  for (const bool exact : {true, false}) {
    SearchCall call = AskBoth(57, exact);
    call.k = 100;
    call.filter = Leaf(FilterNode::Kind::kEquals, "first", {int64_t{3}});
    const std::vector<EngineHit> hits = Hits(call);
    ASSERT_EQ(hits.size(), kSecond);
    EXPECT_EQ(hits[0].id, Id(3 * kSecond + 7)) << "of those that pass, the one that shares the second point";
    for (const EngineHit& hit : hits) EXPECT_EQ(std::get<uint64_t>(hit.id.value) / kSecond, 3u);
    call.distance_max = hits[4].distance;
    EXPECT_EQ(Hits(call).size(), 5u);
  }
}

TEST_F(TwoCircles, AValidationMeasuresBothQueriesAndSearchesUseItsWeight) {
  MakeWorld();
  EXPECT_EQ(WeightInForce(), OlderShare().weight);
  PutTheProbes();
  const auto report = Validated(engine_.get());
  ASSERT_NE(report, nullptr);
  ASSERT_EQ(report->pairs.size(), 1u);
  const PairReport& pair = report->pairs[0];
  EXPECT_FALSE(report->passed) << TextOf(pair);
  EXPECT_TRUE(report->passes_by_both()) << TextOf(pair);
  EXPECT_TRUE(pair.both_pass);
  EXPECT_EQ(pair.both_beside, AdapterMode::kItem);
  ASSERT_EQ(pair.both.size(), 1u) << "beside every way that is in reach";
  EXPECT_EQ(pair.both[0].figures.cmc1.value, 1);
  EXPECT_EQ(pair.both[0].figures.map.value, 1);
  EXPECT_LT(pair.old_self.map.value, 0.5);
  EXPECT_EQ(pair.both[0].older, kOlderShares[0]) << "all weights find all: the least one is taken";
  EXPECT_NE(TextOf(pair).find("older_vectors"), std::string::npos) << TextOf(pair);
  EXPECT_EQ(pair.fitted_pairs, 100u) << "as the adapter's file says";
  EXPECT_EQ(WeightInForce(), kOlderShares[0].weight);
  Restart();
  EXPECT_EQ(WeightInForce(), kOlderShares[0].weight);
  EXPECT_EQ(Encode(*engine_->GetGeneration("c", 2)->validation), Encode(*report));

  // What passes for callers with both vectors alone does not go by unseen.
  ActivateCall call;
  call.collection = "c";
  call.generation = 2;
  EXPECT_TRUE(
      Fails(engine_->ActivateGeneration(call), Code::kFailedPrecondition, {"did not pass", "older_vectors", "force"}));
  call.force = true;
  call.reason = "every caller sends both vectors";
  ASSERT_TRUE(engine_->ActivateGeneration(call).ok());
  EXPECT_EQ(Hits(AskBoth(123, true))[0].id, Id(123));
}

// The largest numbers of the old model say nothing, as the shared parts of word vectors do. An adapter knows that, but
// for every second probe the new model is not where it leads.
class ConditionedQueries : public BothQueries {
 protected:
  static constexpr uint64_t kProbes = 300;
  static constexpr size_t kNoisy = 2;  // of the 8 numbers

  void MakeCosineWorld() {
    old_factors_.assign(kNoisy, 6.0f);
    MakeWorld(Metric::kCosine, 8, 8);
    item_ = {};
    item_.direction = AdapterDirection::kItem;
    item_.kind = AdapterKind::kAffine;
    item_.input_dimension = 8;
    item_.target = new_;
    item_.offset.assign(8, 0.0f);
    for (int i = 0; i < 64; ++i) item_.linear.push_back(i % 9 == 0 && i >= 9 * static_cast<int>(kNoisy) ? 1 : 0);
    Put(item_);
  }

  // The query's vectors by both models.
  std::pair<std::vector<float>, std::vector<float>> QueryOf(uint64_t id) {
    std::vector<float> older = old_rows_[id], newer(8);
    const std::vector<double> carried = CarriedNaively(item_, older);
    const std::vector<float> noise = RandomVector(&random_, 8, 0.6f);
    for (size_t d = 0; d < 8; ++d) newer[d] = static_cast<float>(carried[d]) + (id % 2 == 0 ? 0 : noise[d]);
    for (size_t d = 0; d < kNoisy; ++d) older[d] = 6 * noise[d];
    return {older, newer};
  }

  void PutTheProbes() {
    PutProbesCall call{"", "c", "daily", "", {}};
    for (uint64_t id = 1; id <= kProbes; ++id) {
      Probe probe;
      const auto [older, newer] = QueryOf(id);
      probe.vectors = {{1, older}, {2, newer}};
      probe.relevant = {Id(id)};
      call.probes.push_back(std::move(probe));
    }
    EXPECT_TRUE(engine_->PutProbes(call).ok());
  }

  Ranking ConditionedTruth(const std::vector<float>& older, const std::vector<float>& newer, double weight) {
    std::vector<std::vector<float>> sample;
    for (const uint64_t id : SampledIds()) sample.push_back(old_rows_.at(id));
    const LikenessKernel kernel = *LikenessKernel::Make(sample);
    const QueryLikeness likeness = kernel.Of(older);
    const auto by_older = [&](const std::vector<float>& z) {
      std::vector<float> features(kernel.features());
      kernel.FeaturesOf(z, features);
      return likeness.Distance(DistanceNaively(old_, Doubles(older), old_, Doubles(z)), features);
    };
    std::vector<double> older_distances, newer_distances;
    for (const std::vector<float>& z : sample) {
      older_distances.push_back(by_older(z));
      newer_distances.push_back(NewDistance(newer, z, AdapterMode::kItem));
    }
    const DistanceFusion fusion =
        DistanceFusion::MakeConditioned(newer_distances, NewDistance(newer, older, AdapterMode::kItem), weight)
            .OnScaleOf(OwnDistances(newer), older_distances, newer_distances);
    Ranking all = Truth(newer, AdapterMode::kNone);
    for (const auto& [id, z] : old_rows_) {
      all.emplace_back(fusion.Of(by_older(z), NewDistance(newer, z, AdapterMode::kItem)), id);
    }
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST_F(ConditionedQueries, AreChosenWhereTheAdapterCarriesSomeQueriesAlone) {
  MakeCosineWorld();
  PutTheProbes();
  const auto report = Validated(engine_.get());
  ASSERT_NE(report, nullptr);
  const PairReport& pair = report->pairs.at(0);
  ASSERT_EQ(pair.both.size(), 1u) << "beside the item adapter alone";
  ASSERT_EQ(pair.both_beside, AdapterMode::kItem) << TextOf(pair);
  const WayReport& both = pair.both.back();
  ASSERT_TRUE(both.older->conditioned) << TextOf(pair);
  EXPECT_NE(TextOf(pair).find("conditioned"), std::string::npos);
  for (const uint64_t id : {uint64_t{401}, uint64_t{402}}) {
    const auto [older, newer] = QueryOf(id);
    for (const bool exact : {true, false}) {
      SearchCall call = AskBoth(newer, older, 12, exact);
      const auto answer = engine_->Search(call, {});
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_TRUE(answer->profile->legs[0].conditioned);
      ExpectRanking(answer->results[0].hits, ConditionedTruth(older, newer, both.older->weight), 12,
                    StrCat("query ", id, ", exact ", exact));
    }
  }
}

}  // namespace
}  // namespace lightcone::server
