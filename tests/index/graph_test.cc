// Graphs as bytes: built, parsed, checked and walked.
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <random>
#include <set>

#include "base/status.h"
#include "gtest/gtest.h"
#include "index/graph/graph_builder.h"
#include "index/graph/graph_walk.h"

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
        *graph, ScoredRows{block_, *query}, {64, kRows}, [](uint32_t) { return true; },
        [] { return absl::OkStatus(); });
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

// Sealing relies on it: it walks no broader for queries that found everything.
TEST_F(GraphBytes, ABroaderWalkMissesNothingThatANarrowerOneFound) {
  const auto graph = Graph::Parse(bytes_, kRows);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (int64_t i = 0; i < kRows; i += 3) {
    const auto query = BoundQuery::Make(space_, space_, {&rows_[static_cast<size_t>(4 * i)], 4});
    std::vector<ScoredRow> before;
    for (const int ef : {1, 2, 3, 5, 8, 10, 16, 24, 64, 200}) {
      const auto walk = WalkGraph(
          *graph, ScoredRows{block_, *query}, {ef, kRows * kRows, i}, [i](uint32_t row) { return row != i; },
          [] { return absl::OkStatus(); });
      ASSERT_TRUE(walk.ok());
      ASSERT_EQ(walk->rows.size(), static_cast<size_t>(ef));
      std::set<uint32_t> found;
      float least = walk->rows.front().score;
      for (const ScoredRow& row : walk->rows) {
        found.insert(row.row);
        least = std::min(least, row.score);
      }
      // Others have made room for nearer ones.
      for (const ScoredRow& row : before) EXPECT_TRUE(row.score <= least || found.count(row.row)) << i << ", ef " << ef;
      before = walk->rows;
    }
  }
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

TEST_F(GraphBytes, EntriesLeadToWhatNoLinkLeadsTo) {
  // Rows 590 and above lie far away, and are cut off.
  constexpr size_t kCutOff = 590;
  for (size_t i = 4 * kCutOff; i < rows_.size(); ++i) rows_[i] *= -50;
  for (size_t i = 0; i < static_cast<size_t>(kRows); ++i) factors_[i] = FactorsOf(space_, {&rows_[4 * i], 4});
  std::string bytes = *BuildGraph(space_, block_, nullptr, kRows, {4, 32, 1}, [] { return false; });
  Graph::Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (size_t at = sizeof(header); at < bytes.size(); at += 4) {
    const bool upper_first = at >= sizeof(header) + size_t{header.rows} * header.base_width * 4 &&
                             at < sizeof(header) + (size_t{header.rows} * header.base_width + header.rows + 1) * 4;
    int32_t link = 0;
    std::memcpy(&link, bytes.data() + at, 4);
    if (!upper_first && link >= int32_t{kCutOff}) std::memset(bytes.data() + at, 0, 4);
  }
  const auto finds = [&](const std::string& of) {
    const auto graph = Graph::Parse(of, kRows);
    EXPECT_TRUE(graph.ok()) << graph.status();
    const auto query = BoundQuery::Make(space_, space_, {&rows_[4 * 595], 4});
    const auto walk =
        WalkGraph(*graph, ScoredRows{block_, *query}, {64, kRows}, EveryRow(), [] { return absl::OkStatus(); });
    EXPECT_TRUE(walk.ok());
    return std::any_of(walk->rows.begin(), walk->rows.end(), [](const ScoredRow& row) { return row.row == 595; });
  };
  if (header.entry < kCutOff) {
    EXPECT_FALSE(finds(bytes));
  }
  const auto entries = ChooseEntries(space_, block_, nullptr, kRows);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_GE(entries->size(), 16u);
  EXPECT_LE(entries->size(), size_t{Graph::kEntriesMax});
  const std::string with_entries = WithEntries(bytes, *entries);
  EXPECT_EQ(Graph::Parse(with_entries, kRows)->entries().size(), entries->size());
  EXPECT_TRUE(finds(with_entries));
  EXPECT_EQ(WithEntries(with_entries, {}), bytes) << "and back";
  std::string wrong = with_entries;
  const uint32_t no_row = kRows;
  std::memcpy(wrong.data() + wrong.size() - 4, &no_row, 4);
  EXPECT_EQ(Graph::Parse(wrong, kRows).status().code(), absl::StatusCode::kDataLoss);
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

// Inner products with rows of very different norms, in one graph and spread over many, as a life of upserts leaves
// them.
class GraphsOfProducts : public testing::Test {
 protected:
  static constexpr size_t kDimension = 8;
  static constexpr int64_t kGraphs = 16;
  static constexpr int64_t kRowsEach = 500;
  static constexpr size_t kAsked = 10;
  static constexpr float kSpreadOfNorms = 0.2f;

  GraphsOfProducts() {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (int64_t row = 0; row < kGraphs * kRowsEach; ++row) {
      const float norm = std::exp(kSpreadOfNorms * normal(random));
      for (size_t i = 0; i < kDimension; ++i) rows_.push_back(norm * normal(random));
      factors_.push_back(FactorsOf(space_, {&rows_[rows_.size() - kDimension], kDimension}));
    }
    for (float& x : queries_) x = normal(random);
  }

  RowBlock Block(int64_t first) const {
    RowBlock block;
    block.rows = &rows_[static_cast<size_t>(first) * kDimension];
    block.stride = kDimension;
    block.factors = &factors_[static_cast<size_t>(first)];
    return block;
  }
  Graph Build(int64_t first, int64_t rows) {
    bytes_.push_back(*BuildGraph(space_, Block(first), nullptr, rows, {16, 100, 1}, [] { return false; }));
    return *Graph::Parse(bytes_.back(), rows);
  }
  // Share of the kAsked greatest products of every query that walks of `graphs`, which have `rows` rows each, find.
  double Recall(std::span<const Graph> graphs, int64_t rows) const {
    size_t found = 0;
    for (size_t first = 0; first < queries_.size(); first += kDimension) {
      const auto query = BoundQuery::Make(space_, space_, {&queries_[first], kDimension});
      std::vector<float> scores(factors_.size());
      ScoreRows(*query, rows_.data(), kDimension, factors_.data(), scores.size(), scores.data());
      std::vector<float> best = scores;
      std::nth_element(best.begin(), best.begin() + kAsked - 1, best.end(), std::greater<>());
      std::deque<RowBlock> blocks;  // to which tasks point
      std::vector<WalkTask> tasks;
      for (const Graph& graph : graphs) {
        blocks.push_back(Block(static_cast<int64_t>(blocks.size()) * rows));
        tasks.push_back({&graph, ScoredRows{blocks.back(), *query}, nullptr, {128, kGraphs * kRowsEach}});
      }
      const auto walks = WalkTogether(tasks, [] { return absl::OkStatus(); });
      for (size_t i = 0; i < graphs.size(); ++i) {
        for (const ScoredRow& row : (*walks)[i].rows) {
          found += scores[i * static_cast<size_t>(rows) + row.row] >= best[kAsked - 1];
        }
      }
    }
    return static_cast<double>(found) / static_cast<double>(kAsked * queries_.size() / kDimension);
  }

  Space space_{Metric::kInnerProduct, kDimension};
  std::vector<float> rows_;
  std::vector<RowFactors> factors_;
  std::vector<float> queries_ = std::vector<float>(300 * kDimension);
  std::deque<std::string> bytes_;  // of graphs, which point into them
};

TEST_F(GraphsOfProducts, FindAsMuchTogetherAsOneGraphOfAllRows) {
  std::vector<Graph> many;
  for (int64_t i = 0; i < kGraphs; ++i) many.push_back(Build(i * kRowsEach, kRowsEach));
  const Graph one = Build(0, kGraphs * kRowsEach);
  const double together = Recall(many, kRowsEach);
  const double alone = Recall({&one, 1}, kGraphs * kRowsEach);
  EXPECT_GE(alone, 0.95);
  EXPECT_GE(together, alone - 0.03) << "alone " << alone;  // with 10 rows to set out with: .155 less
}

}  // namespace
}  // namespace lightcone
