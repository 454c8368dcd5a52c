// Rows that an item adapter carries into another space, ranked there: against brute force, kept and not kept.
#include <algorithm>
#include <random>

#include "index/rows/adapted_rows.h"
#include "index/search/adapted_ranking.h"
#include "tests/index/adapted_world.h"

namespace lightcone {
namespace {

TEST(AdaptedSearch, ExactRanksEveryRowByItsDistanceAsCarried) {
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    AdaptedWorld world(metric, 1'300, 7);
    AdaptedRows kept(&*world.adapter_, std::make_shared<AdaptedBudget>(kUnlimited));
    for (const bool sealed : {false, true}) {
      if (sealed) {
        ASSERT_TRUE(world.index_->Flush().ok());
      }
      for (int round = 0; round < 8; ++round) {
        const std::vector<float> q = world.Vector(10);
        const BoundQuery adapted = Bind(world.to_, q);
        SearchRequest request = world.Request(&adapted, round % 2 == 0 ? 15 : 5'000);
        request.adapted_rows = round < 4 ? nullptr : &kept;
        const auto result = world.index_->View()->Search(request);
        ASSERT_TRUE(result.ok()) << result.status();
        AdaptedWorld::ExpectRanking(result->hits, world.Truth(q), request.k,
                                    StrCat(MetricName(metric), " sealed ", sealed, " round ", round));
        // Two whole blocks are carried once; the 276 rows behind them each time.
        EXPECT_EQ(result->rows_adapted, round < 4 ? 1'300 : 276);
      }
    }
    EXPECT_GT(kept.bytes(), 0);
  }
}

TEST(AdaptedSearch, KeptAndFreshRowsAnswerTheSameWhateverTheBudgetAndTheFilter) {
  AdaptedWorld world(Metric::kLorentz, 3'000, 11, /*growing_rows_max=*/900);
  ASSERT_TRUE(world.index_->Flush().ok());
  ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Delete(5), Oracle::Delete(700)}).ok());
  ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Add(9, 2, world.Vector(7))}).ok());
  for (const int64_t bytes_max : {int64_t{0}, int64_t{70'000}, kUnlimited}) {
    AdaptedRows kept(&*world.adapter_, std::make_shared<AdaptedBudget>(bytes_max));
    for (int round = 0; round < 6; ++round) {
      const std::vector<float> q = world.Vector(10);
      const BoundQuery adapted = Bind(world.to_, q);
      SearchRequest request = world.Request(&adapted, 50);
      request.view_generation = round % 2 == 0 ? 1 : 2;
      if (round >= 2) request.keep = [](uint64_t id, float) { return id % 3 == 0; };
      request.keep_share = round >= 4 ? 0.33 : 1.0;
      const auto fresh = world.index_->View()->Search(request);
      request.adapted_rows = &kept;
      const auto cached = world.index_->View()->Search(request);
      ASSERT_TRUE(fresh.ok() && cached.ok());
      std::vector<std::pair<double, uint64_t>> truth = world.Truth(q, request.view_generation);
      if (round >= 2) std::erase_if(truth, [](const auto& row) { return row.second % 3 != 0; });
      AdaptedWorld::ExpectRanking(fresh->hits, truth, 50, StrCat("fresh, round ", round));
      AdaptedWorld::ExpectRanking(cached->hits, truth, 50, StrCat("kept, round ", round));
    }
    EXPECT_LE(kept.bytes(), bytes_max);
  }
}

TEST(AdaptedSearch, CandidatesOfTheOldSpaceAreRankedInTheNewOne) {
  AdaptedWorld world(Metric::kLorentz, 2'000, 3);
  ASSERT_TRUE(world.index_->Flush().ok());
  const std::vector<float> q = world.Vector(10), old = world.Vector(7);
  const BoundQuery adapted = Bind(world.to_, q), bound = Bind(world.from_, old);
  SearchRequest request = world.Request(&adapted, 5);
  request.exact = false;
  request.query = &bound;
  request.ef = 2'000;  // scans and carries everything: the candidates are all rows
  const auto all = world.index_->View()->Search(request);
  ASSERT_TRUE(all.ok()) << all.status();
  AdaptedWorld::ExpectRanking(all->hits, world.Truth(q), 5, "all candidates");

  request.ef = 0;  // 200 candidates
  request.keep = [](uint64_t id, float) { return id <= 900; };
  request.keep_share = 0.01;  // scans: the candidates are surely the nearest ones
  const auto some = world.index_->View()->Search(request);
  ASSERT_TRUE(some.ok());
  EXPECT_GE(some->rows_adapted, 200);
  EXPECT_LT(some->rows_adapted, 230);
  std::vector<std::pair<double, uint64_t>> nearest;
  for (const SearchHit& hit : world.oracle_.BruteForce(bound, 1, 1, 200, request.keep)) {
    const auto truth = world.Truth(q);
    nearest.push_back(
        *std::find_if(truth.begin(), truth.end(), [&](auto& row) { return row.second == hit.internal_id; }));
  }
  std::sort(nearest.begin(), nearest.end());
  AdaptedWorld::ExpectRanking(some->hits, nearest, 5, "200 candidates");
}

TEST(AdaptedSearch, AWalkFindsTheCandidatesThatAreCarried) {
  AdaptedWorld world(Metric::kLorentz, 14'000, 3, /*growing_rows_max=*/20'000);
  ASSERT_TRUE(world.index_->Flush().ok());
  const std::vector<float> q = world.Vector(10), old = world.Vector(7);
  const BoundQuery adapted = Bind(world.to_, q), bound = Bind(world.from_, old);
  SearchRequest request = world.Request(&adapted, 5);
  request.exact = false;
  request.query = &bound;
  const auto walked = world.index_->View()->Search(request);
  ASSERT_TRUE(walked.ok()) << walked.status();
  EXPECT_LT(walked->rows_scored, 14'000) << "a scan, not a walk";
  EXPECT_GE(walked->rows_adapted, 200);
  request.keep = [](uint64_t, float) { return true; };
  request.keep_share = 0.01;  // scans
  const auto scanned = world.index_->View()->Search(request);
  ASSERT_TRUE(scanned.ok()) << scanned.status();
  size_t same = 0;
  for (const SearchHit& hit : walked->hits) {
    same += std::any_of(scanned->hits.begin(), scanned->hits.end(),
                        [&](const SearchHit& other) { return other.internal_id == hit.internal_id; });
  }
  EXPECT_GE(same, 4u);
}

TEST(AdaptedSearch, OneThatCarriesEveryRowLeavesTheOtherLegsTheirTime) {
  AdaptedWorld world(Metric::kLorentz, 14'000, 3, /*growing_rows_max=*/20'000);
  ASSERT_TRUE(world.index_->Flush().ok());
  const BoundQuery adapted = Bind(world.to_, world.Vector(10)), bound = Bind(world.from_, world.Vector(7));
  std::vector<SearchRequest> legs(3, world.Request(&adapted, 5));
  const auto end = [&](uint64_t, float) {
    for (SearchRequest& leg : legs) leg.deadline = absl::InfinitePast();
    return true;
  };
  legs[0].keep = end;
  legs[1].adapter = nullptr;
  legs[1].adapted_query = nullptr;
  legs[1].query = legs[2].query = &bound;
  legs[2].exact = false;
  legs[2].ef = 2'000;  // scans
  auto answers = world.index_->View()->SearchTogether(legs);
  EXPECT_EQ(answers[0].status().code(), absl::StatusCode::kDeadlineExceeded) << answers[0].status();
  ASSERT_TRUE(answers[1].ok()) << answers[1].status();
  EXPECT_EQ(answers[1]->hits.size(), 5u);
  ASSERT_TRUE(answers[2].ok()) << answers[2].status();
  EXPECT_EQ(answers[2]->hits.size(), 5u);

  // Candidates that a walk has found are carried though a scan has taken the time.
  for (SearchRequest& leg : legs) leg.deadline = absl::InfiniteFuture();
  legs[0].keep = {};
  legs[1].keep = end;
  legs[2].ef = 0;
  answers = world.index_->View()->SearchTogether(legs);
  EXPECT_EQ(answers[0].status().code(), absl::StatusCode::kDeadlineExceeded) << answers[0].status();
  EXPECT_EQ(answers[1].status().code(), absl::StatusCode::kDeadlineExceeded) << answers[1].status();
  ASSERT_TRUE(answers[2].ok()) << answers[2].status();
  EXPECT_EQ(answers[2]->hits.size(), 5u);
  EXPECT_LT(answers[2]->rows_scored, 14'000) << "a scan, not a walk";
}

TEST(AdaptedSearch, SaysHowEachSegmentWasSearched) {
  AdaptedWorld world(Metric::kLorentz, 3'000, 3);
  ASSERT_TRUE(world.index_->Flush().ok());
  ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Add(3'001, 1, world.Vector(7))}).ok());  // not sealed
  const BoundQuery adapted = Bind(world.to_, world.Vector(10)), bound = Bind(world.from_, world.Vector(7));
  SearchRequest request = world.Request(&adapted, 5);
  for (const bool all : {true, false}) {
    request.exact = all;
    request.query = all ? nullptr : &bound;
    request.profile = true;
    const auto told = world.index_->View()->Search(request);
    ASSERT_TRUE(told.ok()) << told.status();
    ASSERT_EQ(told->segments.size(), 2u) << "all rows carried: " << all;
    int64_t rows = 0;
    for (const SegmentProfile& segment : told->segments) {
      EXPECT_EQ(segment.plan, SearchPlan::kScan);
      EXPECT_EQ(segment.passing_share, 1);
      rows += segment.rows;
    }
    EXPECT_EQ(rows, 3'001);
    request.profile = false;
    EXPECT_TRUE(world.index_->View()->Search(request)->segments.empty());
  }
}

TEST(AdaptedRows, LetGoOfEverythingWhenCleared) {
  AdaptedWorld world(Metric::kLorentz, 1'300, 4);
  const auto budget = std::make_shared<AdaptedBudget>(kUnlimited);
  AdaptedRows kept(&*world.adapter_, budget);
  ASSERT_TRUE(world.index_->View()->Adapt(1, &kept, nullptr, {}, nullptr).ok());
  EXPECT_GT(kept.bytes(), 0);
  EXPECT_EQ(budget->used(), kept.bytes());
  kept.Clear();
  EXPECT_EQ(kept.bytes(), 0);
  EXPECT_EQ(budget->used(), 0);
  ASSERT_TRUE(world.index_->View()->Adapt(1, &kept, nullptr, {}, nullptr).ok());
  EXPECT_EQ(budget->used(), kept.bytes());
  EXPECT_GT(kept.bytes(), 0);
}

TEST(AdaptedSearch, RowsOfWhichTheAdapterMakesNoVectorAreLeftOut) {
  AdaptedWorld world(Metric::kEuclidean, 600, 5);
  std::vector<float> far(7, 0.0f);
  far[0] = 9e17f;  // allowed, and carried beyond what is
  ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Add(601, 1, far)}).ok());
  AdapterSpec spec = world.spec_;
  for (float& x : spec.linear) x *= 100.0f;
  const Adapter large = std::move(*Adapter::Make(spec));
  AdaptedRows kept(&large, std::make_shared<AdaptedBudget>(kUnlimited));
  const BoundQuery adapted = Bind(world.to_, world.Vector(10));
  SearchRequest request = world.Request(&adapted, 1'000);
  request.adapter = &large;
  for (AdaptedRows* rows : {static_cast<AdaptedRows*>(nullptr), &kept}) {
    request.adapted_rows = rows;
    const auto result = world.index_->View()->Search(request);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->hits.size(), 600u);
    for (const SearchHit& hit : result->hits) EXPECT_NE(hit.internal_id, 601u);
  }
}

TEST(AdaptedSearch, NamesWhatDoesNotFitTogether) {
  AdaptedWorld world(Metric::kLorentz, 10, 1);
  const BoundQuery adapted = Bind(world.to_, world.Vector(10)), old = Bind(world.from_, world.Vector(7));
  SearchRequest request = world.Request(nullptr, 3);
  EXPECT_EQ(world.index_->View()->Search(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.adapted_query = &old;  // not in the adapter's target
  EXPECT_EQ(world.index_->View()->Search(request).status().code(), absl::StatusCode::kFailedPrecondition);
  request.adapted_query = &adapted;
  request.query = &adapted;  // not in the rows' space
  EXPECT_EQ(world.index_->View()->Search(request).status().code(), absl::StatusCode::kFailedPrecondition);
  const Adapter other = std::move(*Adapter::Make(RandomAdapter(&world.random_, AdapterDirection::kItem, 6, world.to_)));
  request = world.Request(&adapted, 3);
  request.adapter = &other;  // takes other vectors than the rows
  EXPECT_EQ(world.index_->View()->Search(request).status().code(), absl::StatusCode::kFailedPrecondition);
  request = world.Request(&adapted, 3);
  request.deadline = absl::InfinitePast();
  EXPECT_EQ(world.index_->View()->Search(request).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(AdaptedRows, StayWithinTheBudgetAndGiveBackWhatIsGone) {
  AdaptedWorld world(Metric::kCosine, 1'100, 2);
  const auto budget = std::make_shared<AdaptedBudget>(kUnlimited);
  {
    AdaptedRows kept(&*world.adapter_, budget);
    ASSERT_TRUE(world.index_->View()->Adapt(1, &kept, nullptr, {}, {}).ok());
    const int64_t growing = kept.bytes();  // two blocks
    EXPECT_GT(growing, 1'024 * 10 * 4);
    EXPECT_EQ(budget->used(), growing);
    ASSERT_TRUE(world.index_->Flush().ok());  // other segments take their place
    ASSERT_TRUE(world.index_->View()->Adapt(1, &kept, nullptr, {}, {}).ok());
    EXPECT_EQ(kept.bytes(), growing) << "blocks of the segment that is gone are gone";
    EXPECT_EQ(budget->used(), kept.bytes());
    EXPECT_EQ(world.index_->View()->Adapt(9, &kept, nullptr, {}, {}).code(), absl::StatusCode::kNotFound);
    const auto stop = [] { return true; };
    EXPECT_EQ(world.index_->View()->Adapt(1, &kept, nullptr, {}, stop).code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(budget->used(), 0);
}

TEST(TopHits, KeepsTheNearestAndBreaksTiesByInternalId) {
  std::mt19937 random(4);
  for (const int64_t k : {1, 3, 40, 200}) {
    TopHits top(k);
    std::vector<SearchHit> all;
    for (uint64_t i = 0; i < 100; ++i) all.push_back({i, static_cast<double>(random() % 7), 0});
    std::shuffle(all.begin(), all.end(), random);
    for (const SearchHit& hit : all) top.Add(hit);
    std::sort(all.begin(), all.end(), [](const SearchHit& x, const SearchHit& y) {
      return x.distance != y.distance ? x.distance < y.distance : x.internal_id < y.internal_id;
    });
    all.resize(std::min(all.size(), static_cast<size_t>(k)));
    ExpectSameHits(top.Take(), all, StrCat("k ", k));
  }
}

}  // namespace
}  // namespace lightcone
