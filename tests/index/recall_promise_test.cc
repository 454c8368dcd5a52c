// A search that names no breadth finds most of the nearest rows, whatever the rows are like. LIGHTCONE_PROMISE_ROWS and
// LIGHTCONE_PROMISE_DIMENSIONS (such as 3,16,128,1024) scale the measurement up.
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numbers>
#include <random>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/index/index_testing.h"

namespace lightcone {
namespace {

constexpr int kQueries = 150;
constexpr double kClipRadius = 3;

int64_t Rows() {
  const char* text = std::getenv("LIGHTCONE_PROMISE_ROWS");
  return text == nullptr ? 6'000 : std::atoll(text);
}

using Points = std::vector<std::vector<float>>;

// Draws rows and queries of one family: queries are drawn as rows are.
class Family {
 public:
  Family(std::string name, int dimension, uint32_t seed)
      : name_(std::move(name)), dimension_(static_cast<size_t>(dimension)), random_(seed) {
    std::mt19937 centres(42);
    std::normal_distribution<float> normal;
    for (int i = 0; i < 12; ++i) {
      auto& centre = islands_.emplace_back(dimension_);
      for (float& x : centre) x = 1000 * normal(centres);
    }
  }

  Points Draw(int64_t count) {
    Points points(static_cast<size_t>(count));
    for (size_t i = 0; i < points.size(); ++i) points[i] = Point(i);
    return points;
  }

 private:
  std::vector<float> Point(size_t i) {
    std::vector<float> z(dimension_);
    for (float& x : z) x = normal_(random_);
    if (name_ == "offset") {
      for (float& x : z) x += 1e6f;
    } else if (name_ == "rogue_dimension") {
      z[0] = random_() % 2 == 0 ? 1000.0f : -1000.0f;
    } else if (name_ == "outlier_dimensions") {  // as text models have: a large mean and a large spread
      for (size_t d = 0; d < dimension_; d += 7) z[d] = 40 + 8 * z[d];
    } else if (name_ == "long_rows") {
      if (random_() % 1000 == 0) Scale(z, 50);
    } else if (name_ == "log_normal_lengths") {
      Scale(z, std::exp(1.5f * normal_(random_)));
    } else if (name_ == "islands") {
      const auto& island = islands_[random_() % islands_.size()];
      for (size_t d = 0; d < dimension_; ++d) z[d] += island[d];
    } else if (name_ == "small_clusters") {  // of a few dozen rows, whose differences drown in codes
      std::mt19937 centre(static_cast<uint32_t>(random_() % 128));
      for (float& x : z) x = (centre() % 2 == 0 ? 1.0f : -1.0f) + 0.001f * x;
    } else if (name_ == "copies") {
      std::mt19937 same(static_cast<uint32_t>(random_() % 40));
      for (float& x : z) x = normal_(same);
      normal_.reset();
      if (random_() % 2 == 0) z[0] += 0.25f * normal_(random_);
    } else if (name_ == "constants_and_denormals") {
      for (size_t d = 1; d < dimension_; d += 2) z[d] = d % 4 == 1 ? 7.0f : 1e-41f;
    } else if (name_ == "time") {  // seconds of one row after the other
      z[0] = 1.7e5f + static_cast<float>(i % 3'000);
    } else if (name_ == "earth") {  // metres from the centre of the earth, in a few cities
      const double city = 0.7 * (1 + static_cast<double>(random_() % 5)), radius = 6.371e6;
      const double at[3] = {radius * std::cos(city), radius * std::sin(city), radius * 0.3};
      for (size_t d = 0; d < dimension_; ++d) z[d] = static_cast<float>(at[d % 3] + 5'000.0 * z[d]);
    } else if (name_ == "far_mean") {
      for (float& x : z) x = 20 + x;
    }
    return z;
  }
  static void Scale(std::vector<float>& z, float by) {
    for (float& x : z) x *= by;
  }

  const std::string name_;
  const size_t dimension_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
  Points islands_;
};

const char* const kFamilies[] = {"plain",   "offset",   "rogue_dimension",         "outlier_dimensions", "long_rows",
                                 "islands", "copies",   "constants_and_denormals", "log_normal_lengths", "time",
                                 "earth",   "far_mean", "small_clusters"};

std::vector<int> DimensionsOf(const std::string& family) {
  const char* text = std::getenv("LIGHTCONE_PROMISE_DIMENSIONS");
  if (text == nullptr) return {family == "earth" ? 3 : 16};
  std::vector<int> dimensions;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) dimensions.push_back(std::atoi(one.c_str()));
  return dimensions;
}

// Vectors of a Lorentz space end at its clip radius: the longest reaches it.
void FitLengths(Metric metric, Points& rows, Points& queries) {
  if (metric != Metric::kLorentz) return;
  double longest = 0;
  for (const auto& z : rows) {
    double square = 0;
    for (const float x : z) square += double{x} * x;
    longest = std::max(longest, std::sqrt(square));
  }
  const float scale = static_cast<float>(kClipRadius / longest);
  for (Points* points : {&rows, &queries}) {
    for (auto& z : *points) {
      for (float& x : z) x *= scale;
    }
  }
}

class Promise : public testing::TestWithParam<std::tuple<const char*, Metric, SealedKind, RowCodes>> {
 protected:
  void Build(int dimension) {
    const auto& [family, metric, kind, codes] = GetParam();
    Family draw(family, dimension, 1);
    rows_ = draw.Draw(Rows());
    queries_ = draw.Draw(kQueries);
    FitLengths(metric, rows_, queries_);
    space_ = {metric, dimension, 1.0, kClipRadius};
    IndexSettings settings;
    settings.kind = kind;
    settings.codes = codes;
    settings.growing_rows_max = std::max<int64_t>(1, Rows() * 2 / 3);  // a large segment and a small one
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

TEST_P(Promise, ASearchThatNamesNoBreadthFindsTheNearestRows) {
  for (const int dimension : DimensionsOf(std::get<0>(GetParam()))) {
    Build(dimension);
    if (HasFatalFailure()) return;
    const double recall = Measure();
    std::cout << "dimension " << dimension << ": recall@10 " << recall << "," << Ways() << "\n";
    EXPECT_GE(recall, 0.95) << Ways();
  }
}

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

}  // namespace
}  // namespace lightcone
