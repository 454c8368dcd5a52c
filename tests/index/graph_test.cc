// Graphs as bytes: built, parsed, checked and walked.
#include <algorithm>
#include <random>
#include <set>

#include "base/status.h"
#include "gtest/gtest.h"
#include "index/graph_builder.h"
#include "index/graph_walk.h"

namespace lightcone {
namespace {

class GraphBytes : public testing::Test {
 protected:
  static constexpr int64_t kRows = 600;
  GraphBytes() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (float& x : rows_) x = normal(random);
    for (int64_t i = 0; i < kRows; ++i) factors_.push_back(FactorsOf(space_, {&rows_[static_cast<size_t>(4 * i)], 4}));
    block_.rows = rows_.data();
    block_.stride = 4;
    block_.factors = factors_.data();
    auto bytes = BuildGraph(space_, block_, nullptr, kRows, {4, 32, 1}, [] { return false; });
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    bytes_ = std::move(*bytes);
  }

  Space space_{Metric::kEuclidean, 4};
  std::vector<float> rows_ = std::vector<float>(4 * kRows);
  std::vector<RowFactors> factors_;
  RowBlock block_;
  std::string bytes_;
};

TEST_F(GraphBytes, AreTheSameEveryTimeAndLeadToTheNearestRows) {
  EXPECT_EQ(*BuildGraph(space_, block_, nullptr, kRows, {4, 32, 1}, [] { return false; }), bytes_);
  const auto graph = Graph::Parse(bytes_, kRows);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_GT(graph->layers(), 1);
  int found = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const auto query = BoundQuery::Make(space_, space_, {&rows_[static_cast<size_t>(4 * i)], 4});
    const auto walk = WalkGraph(
        *graph, ScoredRows{block_, *query}, {64, kRows}, [](uint32_t) { return true; }, [] { return absl::OkStatus(); });
    ASSERT_TRUE(walk.ok());
    EXPECT_EQ(walk->rows.size(), 64u);
    for (const ScoredRow& row : walk->rows) found += row.row == static_cast<uint32_t>(i);
    const auto unasked =
        WalkGraph(*graph, ScoredRows{block_, *query}, {64, kRows}, EveryRow(), [] { return absl::OkStatus(); });
    ASSERT_TRUE(unasked.ok());
    EXPECT_EQ(unasked->evaluations, walk->evaluations);
    EXPECT_TRUE(std::equal(unasked->rows.begin(), unasked->rows.end(), walk->rows.begin(), walk->rows.end(),
                           [](const ScoredRow& x, const ScoredRow& y) { return x.row == y.row; }));
  }
  EXPECT_GE(found, 48);
}

TEST_F(GraphBytes, AWalkThatGivesUpBesideAnotherLeavesThatOneWhole) {
  const auto graph = Graph::Parse(bytes_, kRows);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto interrupted = [] { return absl::OkStatus(); };
  for (const int64_t row : {7, 150, 299}) {
    const auto query = BoundQuery::Make(space_, space_, {&rows_[static_cast<size_t>(4 * row)], 4});
    const WalkTask whole{&*graph, ScoredRows{block_, *query}, nullptr, {16, kRows}};
    for (const int64_t evaluations_max : {1, 40, 120}) {
      const WalkTask short_one{&*graph, ScoredRows{block_, *query}, nullptr, {16, evaluations_max}};
      const auto together = WalkTogether(std::vector<WalkTask>{short_one, whole}, interrupted);
      ASSERT_TRUE(together.ok());
      EXPECT_EQ((*together)[0].gave_up, (*together)[0].evaluations > evaluations_max);
      EXPECT_FALSE((*together)[1].gave_up);
      // Ties of the two graphs, which are one: both hold the row itself.
      const auto has = [row](const ScoredRow& found) { return found.row == static_cast<uint32_t>(row); };
      EXPECT_TRUE(std::any_of((*together)[1].rows.begin(), (*together)[1].rows.end(), has)) << evaluations_max;
    }
  }
  EXPECT_TRUE(WalkTogether({}, interrupted)->empty());
}

TEST_F(GraphBytes, BuiltByCodesOrByManyThreadsLeadToTheNearestRowsInEverySpace) {
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    const Space space{metric, 4, 1.0, 1.2};
    CodeBlock codes;
    codes.stride = CodeStride(codes.kind, 4);
    std::vector<uint8_t> coded(static_cast<size_t>(kRows) * codes.stride);
    codes.rows = coded.data();
    const std::vector<float> centre = {0.1f, -0.2f, 0.05f, 0.0f};
    codes.centre = centre.data();
    for (size_t i = 0; i < static_cast<size_t>(kRows); ++i) {
      factors_[i] = FactorsOf(space, {&rows_[4 * i], 4});
      EncodeRow(metric, factors_[i], {&rows_[4 * i], 4}, &coded[i * codes.stride], &codes);
    }
    for (const bool by_codes : {false, true}) {
      const auto bytes =
          BuildGraph(space, block_, by_codes ? &codes : nullptr, kRows, {4, 32, 3}, [] { return false; });
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      const auto graph = Graph::Parse(*bytes, kRows);
      ASSERT_TRUE(graph.ok()) << graph.status();
      for (uint32_t row = 0; row < kRows; ++row) {
        std::set<int32_t> links;
        for (const int32_t link : graph->Links(row, 0)) {
          if (link < 0) break;
          EXPECT_TRUE(links.insert(link).second && link != static_cast<int32_t>(row)) << row << " to " << link;
        }
        EXPECT_FALSE(links.empty()) << row;
      }
      int found = 0;
      for (size_t i = 0; i < 100; ++i) {
        const auto query = BoundQuery::Make(space, space, {&rows_[4 * i], 4});
        std::vector<float> scores(static_cast<size_t>(kRows));
        ScoreRows(*query, block_.rows, block_.stride, block_.factors, scores.size(), scores.data());
        const auto best = static_cast<uint32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
        const auto walk = WalkGraph(
            *graph, ScoredRows{block_, *query}, {64, kRows}, [](uint32_t) { return true; },
            [] { return absl::OkStatus(); });
        ASSERT_TRUE(walk.ok());
        for (const ScoredRow& row : walk->rows) found += row.row == best;
      }
      // The largest inner products lead to few rows of great norm, which so thin a graph in so few dimensions loses.
      EXPECT_GE(found, metric == Metric::kInnerProduct ? 75 : 97)
          << MetricName(metric) << (by_codes ? " by codes" : "");
    }
  }
}

TEST_F(GraphBytes, AWalkStopsWhenItIsToldTo) {
  const auto graph = Graph::Parse(bytes_, kRows);
  const auto query = BoundQuery::Make(space_, space_, {rows_.data(), 4});
  const auto walk = WalkGraph(
      *graph, ScoredRows{block_, *query}, {200, 50}, [](uint32_t) { return true; }, [] { return absl::OkStatus(); });
  EXPECT_TRUE(walk->gave_up);
  EXPECT_EQ(BuildGraph(space_, block_, nullptr, kRows, {4, 32, 1}, [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(GraphBytes, ThatWereChangedAreRefusedOrStayInBounds) {
  ASSERT_TRUE(Graph::Parse(bytes_, kRows)->Check().ok());
  std::mt19937 random(5);
  int noticed = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = bytes_;
    const size_t at = (i % 2 == 0 ? random() % 64 : random() % bytes.size()) / 4 * 4;
    const uint32_t value = random() % 3 == 0 ? static_cast<uint32_t>(random()) : random() % 700;
    std::memcpy(bytes.data() + at, &value, 4);
    const auto graph = Graph::Parse(bytes, kRows);
    if (!graph.ok()) continue;
    noticed += graph->Check().ok() ? 0 : 1;
    const auto query = BoundQuery::Make(space_, space_, {rows_.data(), 4});
    EXPECT_TRUE(WalkGraph(
                    *graph, ScoredRows{block_, *query}, {16, kRows}, [](uint32_t) { return true; },
                    [] { return absl::OkStatus(); })
                    .ok());
  }
  EXPECT_GT(noticed, 100);
  EXPECT_FALSE(Graph::Parse(bytes_.substr(0, bytes_.size() - 4), kRows).ok());
  EXPECT_FALSE(Graph::Parse(bytes_.substr(0, 10), kRows).ok());
  EXPECT_FALSE(Graph::Parse(bytes_, kRows + 1).ok());
}

}  // namespace
}  // namespace lightcone
