// Legs of one query over several generations: their nearest together, by brute force and along graphs that are walked
// together; and what is left of recall after a collection's life.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/index/index_testing.h"

namespace lightcone {
namespace {

constexpr int kDimension = 24;

class Legs : public testing::TestWithParam<Metric> {
 protected:
  void Open(int generations, int64_t growing_rows_max) {
    space_ = {GetParam(), kDimension, 1.0, 1.2};
    for (int g = 1; g <= generations; ++g) generations_.emplace_back(static_cast<uint32_t>(g), space_);
    settings_.growing_rows_max = growing_rows_max;
    settings_.hnsw_ef_construction = 80;
    auto index = CollectionIndex::Open(folder_.path(), settings_, generations_, &oracle_);
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = std::move(*index);
    std::normal_distribution<float> normal(0, 1 / std::sqrt(float{kDimension}));
    for (auto& centre : centres_) {
      centre.resize(kDimension);
      for (float& x : centre) x = normal(random_);
    }
  }

  // Near one of the centres first .. last - 1.
  std::vector<float> Point(size_t first = 0, size_t last = 40) {
    std::normal_distribution<float> normal(0, 0.5f / std::sqrt(float{kDimension}));
    std::vector<float> z = centres_[first + random_() % (last - first)];
    for (float& x : z) x += normal(random_);
    return z;
  }

  void Write(Oracle::Batch batch) { ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok()); }

  // A seventh of the items goes, and comes back in its generation with another point.
  void DeleteAndPutBack(const std::map<uint64_t, uint32_t>& generation_of, uint32_t remainder) {
    Oracle::Batch gone, back;
    for (const auto& [id, generation] : generation_of) {
      if (id % 7 != remainder) continue;
      gone.push_back(Oracle::Delete(id));
      back.push_back(Oracle::Add(id, generation, Point()));
    }
    Write(std::move(gone));
    ASSERT_TRUE(index_->Flush().ok());
    Write(std::move(back));
    ASSERT_TRUE(index_->Flush().ok());
  }

  struct Asked {
    bool exact = false;
    double target_recall = 0;
    bool together = true;
    std::function<bool(uint64_t, float)> keep = {};
  };
  // The nearest of all generations in a view of the newest; adds what was scored.
  std::vector<SearchHit> Ask(const std::vector<float>& z, const Asked& asked, int64_t* scored = nullptr) {
    const BoundQuery query = Bind(space_, z);
    std::vector<SearchRequest> legs;
    for (const auto& [generation, space] : generations_) {
      SearchRequest& leg = legs.emplace_back();
      leg.query_number = asked.together ? 1 : 0;
      leg.query = &query;
      leg.generation = generation;
      leg.view_generation = generations_.back().first;
      leg.exact = asked.exact;
      leg.target_recall = asked.target_recall;
      leg.keep = asked.keep;
    }
    std::vector<SearchHit> hits;
    for (const auto& result : index_->View()->SearchTogether(legs)) {
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) continue;
      hits.insert(hits.end(), result->hits.begin(), result->hits.end());
      if (scored != nullptr) *scored += result->rows_scored;
    }
    std::sort(hits.begin(), hits.end(), [](const SearchHit& x, const SearchHit& y) {
      return x.distance != y.distance ? x.distance < y.distance : x.internal_id < y.internal_id;
    });
    if (hits.size() > 10) hits.resize(10);
    return hits;
  }

  std::vector<SearchHit> Truth(const std::vector<float>& z, const std::function<bool(uint64_t, float)>& keep = {}) {
    const BoundQuery query = Bind(space_, z);
    std::vector<SearchHit> hits;
    for (const auto& [generation, space] : generations_) {
      const auto of = oracle_.BruteForce(query, generation, generations_.back().first, 10, keep);
      hits.insert(hits.end(), of.begin(), of.end());
    }
    std::sort(hits.begin(), hits.end(), [](const SearchHit& x, const SearchHit& y) {
      return x.distance != y.distance ? x.distance < y.distance : x.internal_id < y.internal_id;
    });
    if (hits.size() > 10) hits.resize(10);
    return hits;
  }

  double Recall(const std::vector<std::vector<float>>& queries, const Asked& asked, int64_t* scored = nullptr) {
    int64_t found = 0, wanted = 0;
    for (const auto& z : queries) {
      const auto truth = Truth(z, asked.keep);
      const auto hits = Ask(z, asked, scored);
      EXPECT_EQ(hits.size(), truth.size());
      wanted += static_cast<int64_t>(truth.size());
      for (const SearchHit& hit : truth) {
        found += std::any_of(hits.begin(), hits.end(),
                             [&](const SearchHit& other) { return other.internal_id == hit.internal_id; });
      }
    }
    return static_cast<double>(found) / static_cast<double>(wanted);
  }

  std::vector<std::vector<float>> Queries(int count, size_t first = 0, size_t last = 40) {
    std::vector<std::vector<float>> queries;
    for (int i = 0; i < count; ++i) queries.push_back(Point(first, last));
    return queries;
  }

  std::mt19937 random_{71};
  std::vector<std::vector<float>> centres_ = std::vector<std::vector<float>>(40);
  TemporaryFolder folder_;
  Space space_;
  IndexSettings settings_;
  std::vector<std::pair<uint32_t, Space>> generations_;
  Oracle oracle_;
  std::unique_ptr<CollectionIndex> index_;
};

TEST_P(Legs, ExactOnesHoldTheNearestOfAll) {
  Open(3, 500);
  if (HasFatalFailure()) return;
  for (uint64_t id = 1; id <= 1'500; ++id) {
    Write({Oracle::Add(id, static_cast<uint32_t>(1 + id % 3), Point())});
    if (id % 7 == 0) Write({Oracle::Add(id, 3, Point())});
    if (id % 11 == 0) Write({Oracle::Delete(id - 5)});
  }
  for (const bool sealed : {false, true}) {
    if (sealed) {
      ASSERT_TRUE(index_->Flush().ok());
    }
    for (const auto& z : Queries(30)) {
      ExpectSameHits(Ask(z, {.exact = true}), Truth(z), StrCat("sealed ", sealed));
      const auto keep = [](uint64_t id, float) { return id % 5 == 0; };
      ExpectSameHits(Ask(z, {.exact = true, .keep = keep}), Truth(z, keep), StrCat("filtered, sealed ", sealed));
    }
  }
}

TEST_P(Legs, AreWalkedTogetherForLessThanAloneAndFindAsMuch) {
  Open(3, 20'000);
  if (HasFatalFailure()) return;
  Oracle::Batch batch;
  for (uint64_t id = 1; id <= 27'000; ++id)
    batch.push_back(Oracle::Add(id, static_cast<uint32_t>(1 + id % 3), Point()));
  Write(std::move(batch));
  ASSERT_TRUE(index_->Flush().ok());
  const auto queries = Queries(100);
  int64_t together = 0, alone = 0;
  EXPECT_GE(Recall(queries, {}, &together), 0.97);
  EXPECT_GE(Recall(queries, {.together = false}, &alone), 0.97);
  EXPECT_LT(static_cast<double>(together), 0.85 * static_cast<double>(alone));
  for (const double target : {0.6, 0.9}) EXPECT_GE(Recall(queries, {.target_recall = target}), target - 0.03);
  const auto keep = [](uint64_t id, float) { return id % 3 != 1; };  // nothing of one generation
  EXPECT_GE(Recall(queries, {.keep = keep}), 0.95);
}

TEST_P(Legs, FindWhatLiesInOneOfThemAlone) {
  Open(3, 20'000);
  if (HasFatalFailure()) return;
  // Each generation has its own centres: all that is near a query is in one of them, whichever comes first.
  Oracle::Batch batch;
  for (uint64_t id = 1; id <= 27'000; ++id) {
    const uint32_t generation = static_cast<uint32_t>(1 + id % 3);
    batch.push_back(Oracle::Add(id, generation, Point(generation * 10, generation * 10 + 10)));
  }
  Write(std::move(batch));
  ASSERT_TRUE(index_->Flush().ok());
  for (size_t generation = 1; generation <= 3; ++generation) {
    EXPECT_GE(Recall(Queries(40, generation * 10, generation * 10 + 10), {}), 0.97) << generation;
  }
}

// Three in ten rows deleted and put back, three generations that supersede one another, ten merges: recall as if the
// index had just been built of what is left. LIGHTCONE_LIFE_ITEMS says of how many items (12,000).
TEST_P(Legs, RecallIsNotLostThroughLife) {
  const char* const asked = std::getenv("LIGHTCONE_LIFE_ITEMS");
  const uint64_t part = asked == nullptr ? 1'000 : std::max(1'000, std::atoi(asked) / 12);
  Open(3, static_cast<int64_t>(part));
  if (HasFatalFailure()) return;
  std::map<uint64_t, uint32_t> generation_of;
  const auto put = [&](uint64_t id, uint32_t generation) {
    generation_of[id] = generation;
    return Oracle::Add(id, generation, Point());
  };
  const uint64_t items = 12 * part;
  for (uint64_t begin = 1; begin <= items; begin += part) {
    Oracle::Batch batch;
    for (uint64_t id = begin; id < begin + part; ++id) batch.push_back(put(id, 1));
    Write(std::move(batch));
  }
  uint64_t next_id = items + 1;
  for (uint32_t generation = 2; generation <= 3; ++generation) {
    for (int part = 0; part < 5; ++part) {
      Oracle::Batch batch;
      std::vector<uint64_t> gone;
      for (const auto& [id, of] : generation_of) {
        if (id % 50 == static_cast<uint64_t>(part) + 10 * generation) gone.push_back(id);  // content replaced
      }
      for (const uint64_t id : gone) {
        batch.push_back(Oracle::Delete(id));
        generation_of.erase(id);
        batch.push_back(put(next_id++, generation));
      }
      for (auto& [id, of] : generation_of) {
        if (of < generation && id % 15 == static_cast<uint64_t>(part)) batch.push_back(put(id, generation));
      }
      Write(std::move(batch));
      ASSERT_TRUE(index_->Flush().ok());
    }
    DeleteAndPutBack(generation_of, generation);
  }
  EXPECT_GE(index_->Stats().builds_total, 10);

  const auto queries = Queries(asked == nullptr ? 150 : 1'000);
  const Asked narrow{.target_recall = 0.9};  // where walks miss some
  int64_t scored = 0, scored_anew = 0;
  const double through_life = Recall(queries, {}, &scored), narrow_through_life = Recall(queries, narrow);
  TemporaryFolder fresh;
  settings_.growing_rows_max = static_cast<int64_t>(20 * part);
  settings_.merge_rows_max = std::max(settings_.merge_rows_max, settings_.growing_rows_max);
  auto built = CollectionIndex::Open(fresh.path(), settings_, generations_, &oracle_);
  ASSERT_TRUE(built.ok()) << built.status();
  index_ = std::move(*built);
  ASSERT_TRUE(oracle_.Replay(*index_).ok());
  ASSERT_TRUE(index_->Flush().ok());
  const double built_anew = Recall(queries, {}, &scored_anew), narrow_built_anew = Recall(queries, narrow);
  EXPECT_GE(through_life, built_anew - 0.01);
  EXPECT_GE(narrow_through_life, std::min(0.9, narrow_built_anew) - 0.01);
  if (asked != nullptr) {
    std::printf(
        "%lu items: recall@10 %.4f through life, %.4f built anew; asked for .9: %.4f and %.4f; rows scored %ld and "
        "%ld\n",
        items, through_life, built_anew, narrow_through_life, narrow_built_anew, scored / 1'000, scored_anew / 1'000);
  }
}

TEST_P(Legs, OneThatRunsOutOfTimeLeavesTheOthersWhatTheyHaveFound) {
  Open(2, 20'000);
  if (HasFatalFailure()) return;
  Oracle::Batch batch;
  for (uint64_t id = 1; id <= 7'000; ++id) batch.push_back(Oracle::Add(id, id <= 5'000 ? 1 : 2, Point()));
  Write(std::move(batch));
  ASSERT_TRUE(index_->Flush().ok());
  const auto z = Point();
  const BoundQuery query = Bind(space_, z);
  for (const bool cancels : {false, true}) {
    std::vector<SearchRequest> legs(2);
    bool gone = false;
    const std::function<bool()> cancelled = [&] { return gone; };
    for (size_t i = 0; i < legs.size(); ++i) {
      legs[i].query = &query;
      legs[i].generation = static_cast<uint32_t>(i + 1);
      legs[i].view_generation = 2;
      legs[i].cancelled = &cancelled;
    }
    legs[0].exact = true;
    legs[1].ef = 32;
    // The first row that the scan asks about takes all the time that is left, when the walk of the other leg is done.
    legs[0].keep = [&](uint64_t, float) {
      gone = cancels;
      for (SearchRequest& leg : legs) leg.deadline = absl::InfinitePast();
      return true;
    };
    const auto answers = index_->View()->SearchTogether(legs);
    const auto ended = cancels ? absl::StatusCode::kCancelled : absl::StatusCode::kDeadlineExceeded;
    EXPECT_EQ(answers[0].status().code(), ended) << answers[0].status();
    if (cancels) {
      EXPECT_EQ(answers[1].status().code(), ended) << answers[1].status();
      continue;
    }
    ASSERT_TRUE(answers[1].ok()) << answers[1].status();
    const auto alone = oracle_.BruteForce(query, 2, 2, 1);
    ASSERT_EQ(answers[1]->hits.size(), 10u);
    EXPECT_EQ(answers[1]->hits[0].distance, alone[0].distance);
  }
}

INSTANTIATE_TEST_SUITE_P(Metrics, Legs,
                         testing::Values(Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean),
                         [](const auto& info) { return std::string(MetricName(info.param)); });

}  // namespace
}  // namespace lightcone
