// Exact search equals a brute-force ranking in double precision, on 10,000 random cases.
#include <cmath>
#include <random>

#include "geometry/code_kernels.h"
#include "geometry/kernels.h"
#include "gtest/gtest.h"
#include "tests/index/index_testing.h"

namespace lightcone {
namespace {

constexpr int kWorlds = 200;
constexpr int kCasesAWorld = 50;

// A random collection: spaces, rows of every awkward kind, history and settings.
class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {
    space_.metric = static_cast<Metric>(seed % 4);
    static constexpr int kDimensions[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 64, 100, 128, 200, 257, 384, 512};
    space_.dimension = kDimensions[Below(std::size(kDimensions))];
    space_.curvature = 0.1 + 1.4 * Unit();
    space_.clip_radius = 0.5 + Unit();
    if (Below(3) == 0) offset_ = 20;
    for (uint32_t g = 1; g <= 1 + Below(3); ++g) generations_.push_back({g, space_});
    IndexSettings settings;
    settings.kind = static_cast<SealedKind>(Below(3));
    settings.ivf_lists = static_cast<int>(Below(9));
    static constexpr RowCodes kCodes[] = {RowCodes::kFloat32, RowCodes::kInt8, RowCodes::kHalf};
    settings.codes = settings.kind == SealedKind::kIvf && Below(3) == 0 ? RowCodes::kPq : kCodes[Below(3)];
    settings.pq_m = Below(2) == 0 ? space_.dimension : 1;
    settings.growing_rows_max = 20 + static_cast<int64_t>(Below(100));  // codes from the 16th row on
    settings.hnsw_m = 4;
    settings.hnsw_ef_construction = 16;
    auto index = CollectionIndex::Open(folder_.path(), settings, generations_, &oracle_);
    EXPECT_TRUE(index.ok()) << index.status();
    index_ = std::move(*index);
  }

  void Fill() {
    const size_t items = 20 + Below(150);
    for (size_t written = 0; written < items;) {
      Oracle::Batch batch;
      for (size_t i = 0; i < 16 && written < items; ++i, ++written) batch.push_back(RandomChange());
      ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
      if (Below(15) == 0) {
        ASSERT_TRUE(index_->Flush().ok());
      }
    }
    if (Below(3) == 0) {
      ASSERT_TRUE(index_->Flush().ok());
    }
  }

  void CheckCases(int seed) {
    for (int i = 0; i < kCasesAWorld; ++i) {
      // Several requests at once answer as each alone, though some of them are late.
      const uint32_t generation = generations_[Below(generations_.size())].first;
      std::vector<BoundQuery> queries;
      std::vector<SearchRequest> requests(1 + Below(Below(8) == 0 ? 24 : 3));
      for (size_t r = 0; r < requests.size(); ++r) queries.push_back(Bind(space_, RandomQuery()));
      for (size_t r = 0; r < requests.size(); ++r) {
        requests[r] = RandomRequest(generation);
        requests[r].query = &queries[r];
      }
      const auto results = index_->View()->SearchTogether(requests);
      ASSERT_EQ(results.size(), requests.size());
      for (size_t r = 0; r < requests.size(); ++r) {
        const SearchRequest& request = requests[r];
        if (request.deadline == absl::InfinitePast()) {
          ASSERT_EQ(results[r].status().code(), absl::StatusCode::kDeadlineExceeded);
          continue;
        }
        ASSERT_TRUE(results[r].ok()) << results[r].status();
        ExpectSameHits(
            results[r]->hits,
            oracle_.BruteForce(queries[r], generation, request.view_generation, request.k, request.keep),
            StrCat("world ", seed, " case ", i, " metric ", MetricName(space_.metric), " d ", space_.dimension));
        ASSERT_GE(results[r]->rows_reranked, static_cast<int64_t>(results[r]->hits.size()));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }

 private:
  std::vector<float> RandomQuery() { return Below(3) == 0 ? AnOldVector() : Vector(); }

  SearchRequest RandomRequest(uint32_t generation) {
    SearchRequest request;
    request.generation = generation;
    request.view_generation = generations_[Below(generations_.size())].first;
    request.k = 1 + static_cast<int64_t>(Below(Below(4) == 0 ? 200 : 12));
    request.exact = true;
    if (Below(3) == 0) {
      const uint64_t modulus = 2 + Below(9);
      request.keep = [modulus](uint64_t id, float uncertainty) { return id % modulus == 0 || uncertainty > 0.8f; };
    }
    if (Below(20) == 0) request.deadline = absl::InfinitePast();
    return request;
  }

  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  double Unit() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  std::vector<float> Vector() {
    std::vector<float> z(static_cast<size_t>(space_.dimension));
    const bool grid = Below(4) == 0;  // many exact ties
    std::normal_distribution<double> normal;
    for (float& x : z) x = grid ? static_cast<float>(Below(3)) - 1 : static_cast<float>(normal(random_));
    double norm = NormOf(z);
    if (norm == 0) {
      z[0] = 1;
      norm = 1;
    }
    if (grid) return Shifted(z);
    // Inside the ball, exactly at the clip, or far outside.
    const double radius = Below(3) == 0 ? space_.clip_radius : Below(2) == 0 ? 3.0 * Unit() + 0.01 : Unit() + 1e-4;
    for (float& x : z) x = static_cast<float>(x * radius / norm);
    return Shifted(z);
  }

  std::vector<float> Shifted(std::vector<float> z) const {
    for (float& x : z) x += offset_;
    return z;
  }

  std::vector<float> AnOldVector() {
    if (oracle_.items().empty()) return Vector();
    auto it = oracle_.items().lower_bound(1 + Below(next_id_));
    if (it == oracle_.items().end()) it = oracle_.items().begin();
    return it->second.begin()->second.z;
  }

  std::vector<float> AwkwardVector() {
    const size_t kind = Below(10);
    if (kind < 5) return Vector();
    std::vector<float> z = AnOldVector();  // a duplicate,
    if (kind < 7) return z;
    if (kind < 9) {  // a near-duplicate: some coordinates a few ulps away,
      for (float& x : z) {
        if (Below(3) == 0) x = std::nextafter(x, static_cast<float>(Below(2) == 0 ? 10 : -10));
      }
      if (NormOf(z) > 1e-6) return z;
    }
    if (space_.metric == Metric::kCosine) return Vector();  // or the origin
    return std::vector<float>(static_cast<size_t>(space_.dimension), 0.0f);
  }

  Oracle::Change RandomChange() {
    const size_t kind = Below(10);
    const float uncertainty = static_cast<float>(Unit());
    const uint32_t generation = generations_[Below(generations_.size())].first;
    if (kind == 0 && next_id_ > 1) return Oracle::Delete(1 + Below(next_id_));
    const bool old = kind < 4 && next_id_ > 1;  // another embedding of an item, or a new one for the same generation
    const uint64_t id = old ? 1 + Below(next_id_ - 1) : next_id_++;
    return Oracle::Add(id, generation, AwkwardVector(), uncertainty);
  }

  std::mt19937 random_;
  TemporaryFolder folder_;
  Space space_;
  float offset_ = 0;  // of every coordinate
  std::vector<std::pair<uint32_t, Space>> generations_;
  Oracle oracle_;
  std::unique_ptr<CollectionIndex> index_;
  uint64_t next_id_ = 1;
};

TEST(ExactSearch, OfVeryManyRowsThatAreAsNearTheAnswerHoldsItsHitsAlone) {
  const TemporaryFolder folder;
  Oracle oracle;
  Space space;
  space.metric = Metric::kEuclidean;
  space.dimension = 8;
  auto index = CollectionIndex::Open(folder.path(), {}, {{1, space}}, &oracle);
  ASSERT_TRUE(index.ok()) << index.status();
  constexpr uint64_t kRows = 6'000;
  for (uint64_t id = 1; id <= kRows;) {
    Oracle::Batch batch;
    for (; id <= kRows && batch.size() < 500; ++id) batch.push_back(Oracle::Add(id, 1, std::vector<float>(8, 0.25f)));
    ASSERT_TRUE(oracle.Write(index->get(), std::move(batch)).ok());
  }
  ASSERT_TRUE((*index)->Flush().ok());
  const BoundQuery query = Bind(space, std::vector<float>(8, 0.5f));
  SearchRequest request;
  request.query = &query;
  request.generation = request.view_generation = 1;
  request.k = 3;
  request.exact = true;
  const std::vector<SearchRequest> requests = {request};
  auto results = (*index)->View()->SearchTogether(requests);
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_EQ(results[0]->rows_reranked, static_cast<int64_t>(kRows)) << "each may be the nearest";
  ASSERT_EQ(results[0]->hits.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(results[0]->hits[i].internal_id, i + 1);
  EXPECT_LE(results[0]->hits.capacity(), 64u);
}

TEST(ExactSearch, EqualsABruteForceRankingInDoublePrecisionOn10000RandomCases) {
  for (int seed = 0; seed < kWorlds; ++seed) {
    World world(static_cast<uint32_t>(seed));
    world.Fill();
    world.CheckCases(seed);
    if (HasFatalFailure()) return;
  }
}

// Rows that nobody has sealed yet, and queries for them. One number of each is so large that int8 codes of the others
// are coarse: they leave more rows to be looked at than vectors do.
class UnsealedRows {
 public:
  static constexpr int64_t kRows = 3'000;

  explicit UnsealedRows(RowCodes codes) {
    IndexSettings settings;
    settings.growing_rows_max = 2 * kRows;
    settings.codes = codes;
    index_ = CollectionIndex::Open(folder_.path(), settings, {{1, space_}}, &oracle_).value();
    for (int64_t written = 0; written < kRows;) {
      Oracle::Batch batch;
      for (int i = 0; i < 300; ++i) batch.push_back(Oracle::Add(static_cast<uint64_t>(++written), 1, Vector()));
      EXPECT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
    }
    for (int i = 0; i < 8; ++i) queries_.push_back(Bind(space_, Vector()));
  }

  // The first `n` queries in one call: how many rows were read as vectors, a query.
  double Refined(size_t n) const {
    double refined = 0;
    for (const SearchResult& result : Search(n)) {
      EXPECT_EQ(result.rows_scored, kRows);
      refined += static_cast<double>(result.rows_refined);
    }
    return refined / static_cast<double>(n);
  }

  CollectionIndex& index() const { return *index_; }

 private:
  std::vector<SearchResult> Search(size_t n) const {
    std::vector<SearchRequest> requests(n);
    for (size_t i = 0; i < n; ++i) {
      requests[i].query = &queries_[i];
      requests[i].generation = requests[i].view_generation = 1;
      requests[i].k = 10;
      requests[i].exact = true;
    }
    std::vector<SearchResult> results;
    for (auto& found : index_->View()->SearchTogether(requests)) results.push_back(std::move(found).value());
    for (size_t i = 0; i < n; ++i) {
      ExpectSameHits(results[i].hits, oracle_.BruteForce(queries_[i], 1, 1, 10), StrCat("query ", i));
    }
    return results;
  }

  std::vector<float> Vector() {
    std::normal_distribution<float> normal(0.3f, 0.1f);
    std::vector<float> z(static_cast<size_t>(space_.dimension));
    for (float& x : z) x = normal(random_);
    z[0] = random_() % 2 == 0 ? 1.0f : -1.0f;
    return z;
  }

  const Space space_{Metric::kEuclidean, 64};
  TemporaryFolder folder_;
  Oracle oracle_;
  std::mt19937 random_{5};
  std::vector<BoundQuery> queries_;
  std::unique_ptr<CollectionIndex> index_;
};

// Instruction sets with and without batches of codes.
class UnsealedRowsByTarget : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { ForceKernelTarget(GetParam() ? KernelTargets().front() : KernelTargets().back()); }
  void TearDown() override { ForceKernelTarget(0); }
};

TEST_P(UnsealedRowsByTarget, AreScannedByTheirCodes) {
  const UnsealedRows rows(RowCodes::kAuto);
  const auto segments = rows.index().Stats().segments;
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].kind, "growing");
  EXPECT_EQ(segments[0].codes, "int8");
  for (const size_t queries : {1, 5}) {
    EXPECT_GT(rows.Refined(queries), 15) << "no codes were read";
    EXPECT_LT(rows.Refined(queries), UnsealedRows::kRows / 5) << "codes were of no use";
  }
  EXPECT_EQ(UnsealedRows(RowCodes::kHalf).index().Stats().segments.at(0).codes, "fp16");
  EXPECT_LT(UnsealedRows(RowCodes::kHalf).Refined(1), 13);
}

TEST_P(UnsealedRowsByTarget, AreScannedByTheirVectorsWithoutCodesOrWhereManyQueriesShareThem) {
  const UnsealedRows without(RowCodes::kFloat32);
  EXPECT_EQ(without.index().Stats().segments.at(0).codes, "float32");
  EXPECT_EQ(without.Refined(1), 0);
  const UnsealedRows with(RowCodes::kInt8);
  if (BatchesCodes(CodeKind::kInt8)) {
    EXPECT_GT(with.Refined(8), 15) << "codes of many queries are faster still";
  } else {
    EXPECT_LT(with.Refined(8), 13) << "no more than the vectors' own scores leave";
  }
}

INSTANTIATE_TEST_SUITE_P(BestAndLeast, UnsealedRowsByTarget, testing::Bool());

TEST(ExactSearch, RanksAThousandDuplicatesByInternalId) {
  TemporaryFolder folder;
  const Space space{Metric::kLorentz, 16, 1.0, 1.2};
  Oracle oracle;
  IndexSettings settings;
  settings.growing_rows_max = 300;
  auto index = CollectionIndex::Open(folder.path(), settings, {{1, space}}, &oracle);
  ASSERT_TRUE(index.ok()) << index.status();
  const std::vector<float> z(16, 0.125f);
  Oracle::Batch batch;
  for (uint64_t id = 1; id <= 10'000; ++id) batch.push_back(Oracle::Add(id, 1, z));
  ASSERT_TRUE(oracle.Write(index->get(), std::move(batch)).ok());
  const BoundQuery query = Bind(space, z);
  SearchRequest request;
  request.query = &query;
  request.generation = request.view_generation = 1;
  request.k = 1000;
  request.exact = true;
  const auto result = (*index)->View()->Search(request);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->hits.size(), 1000u);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(result->hits[i].internal_id, i + 1);
    ASSERT_EQ(result->hits[i].distance, 0);
  }
}

}  // namespace
}  // namespace lightcone
