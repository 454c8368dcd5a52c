// Graphs of galleries that hold copies of rows, blank and placeholder images: those are found, and hide nothing.
#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <set>

#include "geometry/code_kernels.h"
#include "geometry/codes.h"
#include "gtest/gtest.h"
#include "index/graph/graph_builder.h"
#include "index/graph/graph_walk.h"
#include "tests/index/index_testing.h"

namespace lightcone {
namespace {

constexpr size_t kDimension = 24;
constexpr int64_t kWanted = 10;

// Points around 60 centres, and in them `copies` rows that are copies of one of five; the last of those lies at the
// origin (where there is a direction without one), near to everything.
class Gallery {
 public:
  Gallery(Metric metric, bool by_codes, size_t distinct, size_t copies) : by_codes_(by_codes) {
    space_ = {metric, static_cast<int>(kDimension), 1.0, 1.2};
    for (float& x : centres_) x = normal_(random_);
    std::vector<std::vector<float>> points;
    while (points.size() < distinct) points.push_back(Point());
    for (int i = 0; i < 5; ++i) originals_.push_back(Point());
    if (metric == Metric::kEuclidean || metric == Metric::kLorentz) originals_[4].assign(kDimension, 0);
    for (size_t i = 0; i < std::max(copies, originals_.size()); ++i) {
      points.push_back(originals_[i < 5 || i % 2 == 0 ? i % 5 : 4]);  // most are of the last
    }
    std::shuffle(points.begin(), points.end(), random_);
    codes_.stride = CodeStride(codes_.kind, static_cast<int>(kDimension));
    codes_.centre = zeros_.data();
    coded_.resize(points.size() * codes_.stride);
    for (const std::vector<float>& point : points) {
      rows_.insert(rows_.end(), point.begin(), point.end());
      factors_.push_back(FactorsOf(space_, point));
      EncodeRow(metric, factors_.back(), point, &coded_[(factors_.size() - 1) * codes_.stride], &codes_);
    }
    block_.rows = rows_.data();
    block_.stride = kDimension;
    block_.factors = factors_.data();
    codes_.rows = coded_.data();
  }

  void Build(int threads = 1) {
    auto bytes =
        BuildGraph(space_, block_, by_codes_ ? &codes_ : nullptr, size(), {16, 100, threads}, [] { return false; });
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    bytes_ = std::move(*bytes);
    graph_.emplace(*Graph::Parse(bytes_, size()));
    EXPECT_TRUE(graph_->Check().ok());
  }

  std::vector<float> Point() {
    const size_t centre = random_() % 60 * kDimension;
    std::vector<float> point(kDimension);
    for (size_t i = 0; i < kDimension; ++i) point[i] = centres_[centre + i] + 0.5f * normal_(random_);
    return point;
  }
  std::vector<float> NearOriginal(size_t i) {
    std::vector<float> point = originals_[i % 5];
    for (float& x : point) x += 0.01f * normal_(random_);
    return point;
  }

  bool IsCopyOf(uint32_t row, size_t original) const {
    return std::equal(originals_[original].begin(), originals_[original].end(), &rows_[row * kDimension]);
  }

  std::vector<float> ScoresFor(const BoundQuery& query) const {
    std::vector<float> scores(factors_.size());
    ScoreRows(query, block_.rows, block_.stride, block_.factors, scores.size(), scores.data());
    return scores;
  }

  // The share of the ten nearest that walks find; one as near as the tenth is as good.
  double Recall(const std::vector<std::vector<float>>& queries) const {
    double found = 0;
    for (const std::vector<float>& z : queries) {
      const BoundQuery query = Bind(space_, z);
      const std::vector<float> scores = ScoresFor(query);
      std::vector<float> best = scores;
      std::nth_element(best.begin(), best.begin() + kWanted - 1, best.end(), std::greater<>());
      CodeQuery coded(query);
      if (by_codes_) coded.Bind(codes_);
      const ScoredRows score{block_, query, by_codes_ ? &codes_ : nullptr, &coded};
      const auto walk = WalkGraph(
          *graph_, score, {64, size()}, [](uint32_t) { return true; }, [] { return absl::OkStatus(); });
      EXPECT_TRUE(walk.ok() && !walk->gave_up);
      const auto near = std::count_if(walk->rows.begin(), walk->rows.end(), [&](const ScoredRow& row) {
        return scores[row.row] >= best[static_cast<size_t>(kWanted - 1)];
      });
      found += static_cast<double>(std::min<int64_t>(near, kWanted));
    }
    return found / static_cast<double>(kWanted * static_cast<int64_t>(queries.size()));
  }

  int64_t size() const { return static_cast<int64_t>(factors_.size()); }
  const Graph& graph() const { return *graph_; }
  const Space& space() const { return space_; }
  const RowBlock& block() const { return block_; }
  const std::string& bytes() const { return bytes_; }
  const std::vector<float>& original(size_t i) const { return originals_[i]; }

 private:
  const bool by_codes_;
  Space space_;
  std::mt19937 random_{7};
  std::normal_distribution<float> normal_{0, 0.2f};
  std::vector<float> centres_ = std::vector<float>(60 * kDimension);
  const std::vector<float> zeros_ = std::vector<float>(2 * kDimension);
  std::vector<std::vector<float>> originals_;
  std::vector<float> rows_;
  std::vector<RowFactors> factors_;
  RowBlock block_;
  std::vector<uint8_t> coded_;
  CodeBlock codes_;
  std::string bytes_;
  std::optional<Graph> graph_;
};

struct CopiesCase {
  Metric metric;
  bool by_codes;
  size_t distinct, copies;
};

class GraphCopies : public testing::TestWithParam<CopiesCase> {};

TEST_P(GraphCopies, AreFoundAndHideNothing) {
  const auto [metric, by_codes, distinct, copies] = GetParam();
  Gallery without(metric, by_codes, distinct, 0), with(metric, by_codes, distinct, copies);
  without.Build();
  with.Build();
  std::vector<std::vector<float>> queries, near;
  for (int i = 0; i < 200; ++i) queries.push_back(with.Point());
  for (size_t i = 0; i < 50; ++i) near.push_back(with.NearOriginal(i));
  EXPECT_GE(with.Recall(queries), without.Recall(queries) - 0.01);
  EXPECT_GE(with.Recall(near), 0.99) << "of copies";
}

INSTANTIATE_TEST_SUITE_P(
    Shares, GraphCopies,
    testing::Values(CopiesCase{Metric::kEuclidean, false, 3'960, 40}, CopiesCase{Metric::kEuclidean, false, 3'800, 200},
                    CopiesCase{Metric::kEuclidean, false, 2'800, 1'200},
                    CopiesCase{Metric::kEuclidean, true, 3'800, 200}, CopiesCase{Metric::kLorentz, false, 3'800, 200},
                    CopiesCase{Metric::kLorentz, true, 2'800, 1'200}, CopiesCase{Metric::kCosine, false, 2'800, 1'200},
                    CopiesCase{Metric::kInnerProduct, false, 3'800, 200}),
    [](const auto& info) {
      return StrCat(MetricName(info.param.metric), info.param.by_codes ? "_codes_" : "_", info.param.copies);
    });

class GraphOfManyCopies : public testing::Test {
 protected:
  GraphOfManyCopies() : gallery_(Metric::kEuclidean, false, 1'000, 3'000) {}

  int64_t Copies() const {
    int64_t copies = 0;
    for (uint32_t row = 0; row < gallery_.size(); ++row) copies += gallery_.IsCopyOf(row, 4);
    return copies;
  }

  Gallery gallery_;
};

TEST_F(GraphOfManyCopies, LeadsToEveryOneOfThemByOneThreadOrMany) {
  for (const int threads : {1, 3}) {
    gallery_.Build(threads);
    const BoundQuery query = Bind(gallery_.space(), gallery_.original(4));
    const auto walk = WalkGraph(
        gallery_.graph(), ScoredRows{gallery_.block(), query}, {static_cast<int>(Copies()), 1 << 20},
        [](uint32_t) { return true; }, [] { return absl::OkStatus(); });
    ASSERT_TRUE(walk.ok());
    std::set<uint32_t> found;
    for (const ScoredRow& row : walk->rows) {
      EXPECT_TRUE(gallery_.IsCopyOf(row.row, 4) && found.insert(row.row).second) << row.row;
    }
    EXPECT_EQ(static_cast<int64_t>(found.size()), Copies()) << threads;
  }
}

TEST_F(GraphOfManyCopies, LeadsFilteredAndSharedWalksToThem) {
  gallery_.Build();
  std::vector<uint32_t> seeds;
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) seeds.push_back(random() % static_cast<uint32_t>(gallery_.size()));
  for (size_t i = 0; i < 10; ++i) {
    const BoundQuery query = Bind(gallery_.space(), gallery_.NearOriginal(i));
    const ScoredRows score{gallery_.block(), query};
    const auto copies = [&](const std::vector<ScoredRow>& rows) {
      return std::count_if(rows.begin(), rows.end(), [&](ScoredRow row) { return gallery_.IsCopyOf(row.row, i % 5); });
    };
    const auto interrupted = [] { return absl::OkStatus(); };
    for (const uint32_t left_out : {0u, 1u}) {  // half of the rows, and the others
      const auto pass = [&](uint32_t row) { return (row * 2654435761u >> 31) != left_out; };
      std::vector<uint32_t> passing;
      std::copy_if(seeds.begin(), seeds.end(), std::back_inserter(passing), pass);
      const auto walk = WalkPassing(
          gallery_.graph(), score, {64, gallery_.size()}, passing, pass,
          [&](uint32_t row) {
            EXPECT_TRUE(pass(row));
            return true;
          },
          interrupted);
      ASSERT_TRUE(walk.ok());
      EXPECT_GE(copies(walk->rows), kWanted) << i;
    }
    const WalkTask task{&gallery_.graph(), score, [](uint32_t) { return true; }, {64, gallery_.size()}};
    const auto together = WalkTogether(std::vector<WalkTask>{task, task}, interrupted);
    ASSERT_TRUE(together.ok());
    EXPECT_GE(copies((*together)[0].rows) + copies((*together)[1].rows), kWanted) << i;
  }
}

TEST_F(GraphOfManyCopies, IsTheSameEveryTimeAndNoListNamesARowTwice) {
  gallery_.Build();
  const std::string bytes = gallery_.bytes();
  gallery_.Build();
  EXPECT_EQ(gallery_.bytes(), bytes);
  int with_copies = 0;
  for (uint32_t row = 0; row < gallery_.size(); ++row) {
    std::set<int32_t> links;
    for (const int32_t link : gallery_.graph().Links(row, 0)) {
      if (link < 0) break;
      EXPECT_TRUE(links.insert(link).second) << row << " to " << link;
    }
    with_copies += links.contains(static_cast<int32_t>(row));
  }
  EXPECT_EQ(with_copies, 3'000);
}

}  // namespace
}  // namespace lightcone
