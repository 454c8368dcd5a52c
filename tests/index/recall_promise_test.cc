// A search that names no breadth finds most of the nearest rows, whatever the rows are like. LIGHTCONE_PROMISE_ROWS and
// LIGHTCONE_PROMISE_DIMENSIONS (such as 3,16,128,1024) scale the measurement up. What an index chooses by itself is
// measured in recall_life_test.cc.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/index/index_testing.h"
#include "tests/index/promise_families.h"

namespace lightcone {
namespace {

constexpr int kQueries = 150;

std::vector<int> DimensionsOf(const std::string& family) {
  const char* text = std::getenv("LIGHTCONE_PROMISE_DIMENSIONS");
  if (text == nullptr) return {family == "earth" ? 3 : 16};
  std::vector<int> dimensions;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) dimensions.push_back(std::atoi(one.c_str()));
  return dimensions;
}

class PromiseWorld : public testing::Test {
 protected:
  void Build(const char* family, Metric metric, SealedKind kind, RowCodes codes, int dimension, int64_t rows) {
    Family draw(family, dimension, 1);
    rows_ = draw.Draw(rows);
    queries_ = draw.Draw(kQueries);
    FitLengths(metric, rows_, queries_);
    space_ = {metric, dimension, 1.0, kClipRadius};
    IndexSettings settings;
    settings.kind = kind;
    settings.codes = codes;
    const size_t large = static_cast<size_t>(rows) * 2 / 3;  // rows of a large segment, before those of a small one
    settings.growing_rows_max = std::max<int64_t>(1, static_cast<int64_t>(large));
    oracle_ = std::make_unique<Oracle>();
    index_.reset();
    folder_ = std::make_unique<TemporaryFolder>();
    auto index = CollectionIndex::Open(folder_->path(), settings, {{1, space_}}, oracle_.get());
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = std::move(*index);
    Oracle::Batch batch;
    for (size_t i = 0; i < rows_.size(); ++i) {
      batch.push_back(Oracle::Add(i + 1, 1, rows_[i]));
      if (batch.size() < 500 && i + 1 < rows_.size()) continue;
      ASSERT_TRUE(oracle_->Write(index_.get(), std::exchange(batch, {})).ok());
      if (i < large && i + 500 >= large) {
        ASSERT_TRUE(index_->Flush().ok());
      }
    }
    ASSERT_TRUE(index_->Flush().ok());
  }

  // Share of the ten nearest rows, or of rows as near as these.
  double Measure() {
    double found = 0;
    for (const auto& z : queries_) {
      const BoundQuery query = Bind(space_, z);
      SearchRequest request;
      request.query = &query;
      request.generation = request.view_generation = 1;
      const auto view = index_->View();
      const auto result = view->Search(request);
      request.exact = true;
      const auto exact = view->Search(request);
      EXPECT_TRUE(result.ok() && exact.ok());
      if (!result.ok() || !exact.ok()) return 0;
      EXPECT_EQ(result->hits.size(), 10u);
      for (const SearchHit& hit : result->hits) found += hit.distance <= exact->hits.back().distance ? 0.1 : 0;
    }
    return found / static_cast<double>(queries_.size());
  }

  // Scans find everything on any data, but no index is needed for them.
  bool IsScanned() const {
    const std::vector<SegmentInfo> segments = index_->Stats().segments;
    return std::ranges::any_of(segments, [](const SegmentInfo& one) { return one.default_breadth == 0; });
  }

  std::string Ways() const {
    std::string text;
    for (const SegmentInfo& segment : index_->Stats().segments) {
      text += StrCat(" ", segment.kind, "/", segment.codes, "/", segment.default_breadth);
    }
    return text;
  }

  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<Oracle> oracle_;
  std::unique_ptr<CollectionIndex> index_;
  Space space_;
  Points rows_, queries_;
};

class Promise : public PromiseWorld,
                public testing::WithParamInterface<std::tuple<const char*, Metric, SealedKind, RowCodes>> {
 protected:
  // Rows that float32 numbers of their space barely tell apart, and inner products that a few long rows decide.
  bool MayBeScanned() const {
    const auto& [family, metric, kind, codes] = GetParam();
    const std::string name = family;
    if (std::getenv("LIGHTCONE_PROMISE_ROWS") != nullptr) return true;
    if (metric == Metric::kInnerProduct) return name == "log_normal_lengths";
    if (metric == Metric::kEuclidean) return name == "offset" && kind == SealedKind::kIvf;
    return name == "offset" || name == "time";
  }

  static void TearDownTestSuite() {
    const double sum = std::accumulate(recalls_.begin(), recalls_.end(), 0.0);
    EXPECT_GE(sum, 0.97 * static_cast<double>(recalls_.size())) << "mean of " << recalls_.size() << " settings";
    recalls_.clear();
  }

  static inline std::vector<double> recalls_;  // of all settings that were measured
};

TEST_P(Promise, ASearchThatNamesNoBreadthFindsTheNearestRows) {
  for (const int dimension : DimensionsOf(std::get<0>(GetParam()))) {
    const auto& [family, metric, kind, codes] = GetParam();
    Build(family, metric, kind, codes, dimension, PromiseRows());
    if (HasFatalFailure()) return;
    // Threads build another graph each time, and the measured recall of some is at the edge.
    if (IsScanned() && !MayBeScanned()) Build(family, metric, kind, codes, dimension, PromiseRows());
    const double recall = Measure();
    std::cout << "dimension " << dimension << ": recall@10 " << recall << "," << Ways() << "\n";
    EXPECT_GE(recall, 0.95) << Ways();
    EXPECT_TRUE(MayBeScanned() || !IsScanned()) << "nothing but a scan finds enough:" << Ways();
    recalls_.push_back(recall);
  }
}

// Rows on which walks of the settings' breadth, or by the codes that were asked for, find too little unless the index
// does something about it. That must cost no more than this.
struct HardRows {
  const char* family;
  Metric metric;
  int dimension;
  int64_t rows;
  int breadth_max;  // 0: no walk finds enough, so that they are scanned
};

class PromiseOfHardRows : public PromiseWorld, public testing::WithParamInterface<HardRows> {};

TEST_P(PromiseOfHardRows, IsKeptAtABoundedCost) {
  const HardRows& hard = GetParam();
  bool bounded = false;
  for (int attempt = 0; attempt < 2 && !bounded; ++attempt) {  // as above
    Build(hard.family, hard.metric, SealedKind::kHnsw, RowCodes::kInt8, hard.dimension, hard.rows);
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_GE(Measure(), 0.95) << Ways();
    const std::vector<SegmentInfo> segments = index_->Stats().segments;
    bounded = IsScanned() == (hard.breadth_max == 0) && std::ranges::all_of(segments, [&](const SegmentInfo& one) {
                return one.codes == "int8" && (hard.breadth_max == 0 || one.default_breadth <= hard.breadth_max);
              });
  }
  EXPECT_TRUE(bounded) << Ways();
}

// Independent numbers need more links than the settings have; inner products of very different lengths, a scan; a
// common offset, codes around the mean.
constexpr HardRows kHardRows[] = {{"plain", Metric::kCosine, 128, 15'000, 384},
                                  {"plain", Metric::kEuclidean, 128, 15'000, 256},
                                  {"log_normal_lengths", Metric::kInnerProduct, 24, 12'000, 0},
                                  {"offset", Metric::kEuclidean, 24, 12'000, 128}};
INSTANTIATE_TEST_SUITE_P(OfGraphs, PromiseOfHardRows, testing::ValuesIn(kHardRows), [](const auto& info) {
  return StrCat(info.param.family, "_", MetricName(info.param.metric), "_", info.param.dimension);
});

std::string NameOf(const testing::TestParamInfo<Promise::ParamType>& info) {
  const auto& [family, metric, kind, codes] = info.param;
  return StrCat(family, "_", MetricName(metric), "_", SealedKindName(kind), "_", RowCodesName(codes));
}

INSTANTIATE_TEST_SUITE_P(OfGraphs, Promise,
                         testing::Combine(testing::ValuesIn(kFamilies),
                                          testing::Values(Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct,
                                                          Metric::kEuclidean),
                                          testing::Values(SealedKind::kHnsw), testing::Values(RowCodes::kInt8)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(OfGraphsByVectors, Promise,
                         testing::Combine(testing::ValuesIn(kFamilies),
                                          testing::Values(Metric::kInnerProduct, Metric::kEuclidean),
                                          testing::Values(SealedKind::kHnsw), testing::Values(RowCodes::kFloat32)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(OfLists, Promise,
                         testing::Combine(testing::ValuesIn(kFamilies),
                                          testing::Values(Metric::kInnerProduct, Metric::kEuclidean),
                                          testing::Values(SealedKind::kIvf), testing::Values(RowCodes::kPq)),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(OfGraphsByHalves, Promise,
                         testing::Combine(testing::ValuesIn(kFamilies),
                                          testing::Values(Metric::kLorentz, Metric::kCosine),
                                          testing::Values(SealedKind::kHnsw), testing::Values(RowCodes::kHalf)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(OfListsByBytes, Promise,
                         testing::Combine(testing::ValuesIn(kFamilies),
                                          testing::Values(Metric::kLorentz, Metric::kCosine),
                                          testing::Values(SealedKind::kIvf), testing::Values(RowCodes::kInt8)),
                         NameOf);
}  // namespace
}  // namespace lightcone
