// A search that names no breadth finds most of the nearest rows whatever befell its index: many small segments, merges,
// deletions, rebuilds of another kind, embeddings by a second generation, and an item adapter.
#include <functional>
#include <iostream>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "index/adapted/carried_segments.h"
#include "tests/index/index_testing.h"
#include "tests/index/promise_families.h"
#include "tests/support/adapter_testing.h"

namespace lightcone {
namespace {

constexpr int kQueries = 40;
constexpr int kDimension = 12;
constexpr int kSegments = 8;

class PromiseForLife : public testing::TestWithParam<std::tuple<const char*, Metric>> {
 protected:
  void SetUp() override {
    const auto& [family, metric] = GetParam();
    space_ = {metric, kDimension, 1.0, kClipRadius};
    Family draw(family, kDimension, 1);
    rows_ = draw.Draw(PromiseRows() / 4);
    queries_ = draw.Draw(kQueries);
    FitLengths(metric, rows_, queries_);
    settings_.kind = SealedKind::kHnsw;
    settings_.growing_rows_max = std::ssize(rows_) / kSegments;
    settings_.merge_rows_max = settings_.growing_rows_max;  // none is merged yet
    auto index = CollectionIndex::Open(folder_.path(), settings_, {{1, space_}, {2, space_}}, &oracle_);
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = std::move(*index);
    Write(1, [](size_t) { return true; });
  }

  // The rows that `chosen` chooses, as embeddings of the generation.
  void Write(uint32_t generation, const std::function<bool(size_t)>& chosen) {
    Oracle::Batch batch;
    const auto write = [&] { ASSERT_TRUE(oracle_.Write(index_.get(), std::exchange(batch, {})).ok()); };
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!chosen(i)) continue;
      batch.push_back(Oracle::Add(i + 1, generation, rows_[i]));
      if (batch.size() == 250) write();
    }
    if (!batch.empty()) write();
    ASSERT_TRUE(index_->Flush().ok());
  }
  void Delete(const std::function<bool(size_t)>& chosen) {
    Oracle::Batch batch;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (chosen(i)) batch.push_back(Oracle::Delete(i + 1));
    }
    ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
    ASSERT_TRUE(index_->Flush().ok());
  }
  void Reconfigure(SealedKind kind, RowCodes codes, int64_t merge_rows_max) {
    settings_.kind = kind;
    settings_.codes = codes;
    settings_.merge_rows_max = merge_rows_max;
    ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
  }
  bool Comes(const std::function<bool()>& condition) {
    for (const absl::Time end = absl::Now() + absl::Minutes(2); absl::Now() < end; std::this_thread::yield()) {
      if (condition()) return true;
    }
    return false;
  }

  // Share of the ten nearest rows, or of rows as near as these, that a default search of the generation finds.
  double Recall(const std::vector<BoundQuery>& queries, SearchRequest request, const BoundQuery* SearchRequest::*slot) {
    const auto view = index_->View();
    double found = 0;
    for (const BoundQuery& query : queries) {
      request.*slot = &query;
      request.exact = false;
      const auto result = view->Search(request);
      request.exact = true;
      const auto exact = view->Search(request);
      EXPECT_TRUE(result.ok() && exact.ok()) << result.status() << exact.status();
      if (!result.ok() || !exact.ok() || exact->hits.empty()) return 0;
      EXPECT_EQ(result->hits.size(), exact->hits.size());
      const double each = 1.0 / static_cast<double>(exact->hits.size());
      for (const SearchHit& hit : result->hits) found += hit.distance <= exact->hits.back().distance ? each : 0;
    }
    return found / static_cast<double>(queries.size());
  }
  void ExpectPromise(uint32_t generation, uint32_t view_generation, const std::string& what) {
    SearchRequest request;
    request.generation = generation;
    request.view_generation = view_generation;
    std::vector<BoundQuery> queries;
    for (const auto& z : queries_) queries.push_back(Bind(space_, z));
    Check(Recall(queries, request, &SearchRequest::query), StrCat(what, ", generation ", generation));
  }
  void Check(double recall, const std::string& what) {
    std::string ways;
    for (const SegmentInfo& one : index_->Stats().segments) {
      ways += StrCat(" ", one.kind, "/", one.codes, "/", one.rows, "/", one.default_breadth);
    }
    std::cout << what << ": recall@10 " << recall << "," << ways << "\n";
    EXPECT_GE(recall, 0.95) << what << ways;
  }

  // Turns rows, so that they stay as near to each other as they are; half of the families' lengths differ by number.
  AdapterSpec Turn() const {
    AdapterSpec spec;
    spec.kind = AdapterKind::kAffine;
    spec.input_dimension = kDimension;
    spec.target = space_;
    spec.linear.assign(kDimension * kDimension, 0.0f);
    for (size_t i = 0; i < kDimension; ++i) {
      spec.linear[((i * 5 + 1) % kDimension) * kDimension + i] = i % 2 == 0 ? 0.9f : -0.9f;
    }
    spec.offset.assign(kDimension, 0.0f);
    return spec;
  }

  TemporaryFolder folder_;
  IndexSettings settings_;
  Oracle oracle_;
  Space space_;
  Points rows_, queries_;
  std::unique_ptr<CollectionIndex> index_;
};

TEST_P(PromiseForLife, IsKeptThroughMergesDeletionsRebuildsAndMixedGenerations) {
  ASSERT_FALSE(HasFatalFailure());
  ExpectPromise(1, 1, "many segments");
  Reconfigure(SealedKind::kHnsw, RowCodes::kInt8, 1'000'000);
  ASSERT_TRUE(Comes([&] { return index_->Stats().segments.size() <= 2; })) << "nothing was merged";
  ExpectPromise(1, 1, "merged");
  Delete([](size_t i) { return i % 5 < 2; });
  ExpectPromise(1, 1, "two fifths deleted");
  Write(2, [](size_t i) { return i % 5 == 3; });
  ExpectPromise(1, 2, "a third by another generation");
  ExpectPromise(2, 2, "a third by another generation");
  Reconfigure(SealedKind::kIvf, RowCodes::kInt8, 1'000'000);
  ASSERT_TRUE(index_->Flush().ok());
  ExpectPromise(1, 2, "rebuilt as lists");
  ExpectPromise(2, 2, "rebuilt as lists");
  Reconfigure(SealedKind::kAuto, RowCodes::kAuto, 1'000'000);
  ASSERT_TRUE(index_->Flush().ok());
  ExpectPromise(1, 2, "rebuilt as the index chooses");
}

TEST_P(PromiseForLife, IsKeptByRowsThatAnItemAdapterCarried) {
  ASSERT_FALSE(HasFatalFailure());
  const Adapter adapter = std::move(*Adapter::Make(Turn()));
  CarriedSegments carried(&adapter, 77, folder_ / "adapted/1", std::make_shared<AdaptedBudget>(int64_t{1} << 40));
  ASSERT_TRUE(index_->View()->Adapt(1, nullptr, &carried, settings_, [] { return false; }).ok());
  EXPECT_EQ(carried.rows(), std::ssize(rows_));
  std::vector<BoundQuery> queries;
  for (const auto& z : queries_) {
    std::vector<float> q(kDimension);
    adapter.ApplyOne(z, q);
    queries.push_back(Bind(space_, q));
  }
  SearchRequest request;
  request.generation = request.view_generation = 1;
  request.adapter = &adapter;
  request.carried = &carried;
  Check(Recall(queries, request, &SearchRequest::adapted_query), "carried");
}

// Each family with two of the four geometries, and with all of them where the measurement is scaled up.
std::vector<std::tuple<const char*, Metric>> Lives() {
  const Metric metrics[] = {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean};
  const bool all = std::getenv("LIGHTCONE_PROMISE_ROWS") != nullptr;
  std::vector<std::tuple<const char*, Metric>> lives;
  size_t place = 0;
  for (const char* const family : kFamilies) {
    for (size_t m = 0; m < std::size(metrics); ++m) {
      if (all || (place + m) % 2 == 0) lives.emplace_back(family, metrics[m]);
    }
    ++place;
  }
  return lives;
}

INSTANTIATE_TEST_SUITE_P(Families, PromiseForLife, testing::ValuesIn(Lives()), [](const auto& info) {
  return StrCat(std::get<0>(info.param), "_", MetricName(std::get<1>(info.param)));
});

}  // namespace
}  // namespace lightcone
