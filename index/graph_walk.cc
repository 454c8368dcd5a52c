#include "index/graph_walk.h"

#include <algorithm>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr int64_t kEvaluationsBetweenChecks = 4096;
constexpr int kLinksAnEvaluation = 8;  // that are asked whether they pass, at about the cost of one score

void PrefetchLinks(const Graph& graph, uint32_t row) {
  const std::span<const int32_t> links = graph.Links(row, 0);
  for (size_t i = 0; i < links.size(); i += 16) __builtin_prefetch(links.data() + i);
}

class Walk {
 public:
  Walk(const Graph& graph, RowScorer score)
      : graph_(graph),
        score_(score),
        ids_(static_cast<size_t>(2 * graph.width_max())),
        scores_(ids_.size()) {}

  // Greedy descent to the base layer.
  ScoredRow Descend() {
    ids_[0] = graph_.entry();
    Score(1);
    ScoredRow nearest{scores_[0], graph_.entry()};
    for (int layer = graph_.layers() - 1; layer >= 1; --layer) {
      for (bool moved = true; moved;) {
        moved = false;
        size_t n = 0;
        for (const int32_t link : graph_.Links(nearest.row, layer)) {
          if (!graph_.IsRow(link)) break;
          ids_[n++] = static_cast<uint32_t>(link);
        }
        Score(n);
        for (size_t i = 0; i < n; ++i) {
          if (scores_[i] > nearest.score) {
            nearest = {scores_[i], ids_[i]};
            moved = true;
          }
        }
      }
    }
    return nearest;
  }

  // Collects the links of `row` on the base layer that were not visited, and scores them. Returns their number.
  size_t Expand(uint32_t row, Visited& visited) {
    size_t n = 0;
    for (const int32_t link : graph_.Links(row, 0)) {
      if (!graph_.IsRow(link)) break;
      if (!visited.TestAndSet(static_cast<uint32_t>(link))) ids_[n++] = static_cast<uint32_t>(link);
    }
    Score(n);
    return n;
  }

  // The same of the links that pass; where they are few, of links of those that do not.
  size_t ExpandPassing(uint32_t row, Visited& visited, Visited& failed, absl::FunctionRef<bool(uint32_t)> pass) {
    const size_t enough = static_cast<size_t>(graph_.base_width());
    work_ += graph_.base_width() / kLinksAnEvaluation;
    size_t n = 0;
    bridges_.clear();
    for (const int32_t link : graph_.Links(row, 0)) {
      if (!graph_.IsRow(link)) break;
      const uint32_t to = static_cast<uint32_t>(link);
      if (Passing(to, visited, failed, pass)) {
        ids_[n++] = to;
      } else if (!visited.Test(to)) {
        bridges_.push_back(to);
        PrefetchLinks(graph_, to);
      }
    }
    for (size_t i = 0; i < bridges_.size() && n < enough; ++i) {
      visited.TestAndSet(bridges_[i]);
      work_ += graph_.base_width() / kLinksAnEvaluation;
      for (const int32_t link : graph_.Links(bridges_[i], 0)) {
        if (!graph_.IsRow(link)) break;
        const uint32_t to = static_cast<uint32_t>(link);
        if (Passing(to, visited, failed, pass)) ids_[n++] = to;
      }
    }
    Score(n);
    return n;
  }

  // Rows given: up to as many as two rows have links.
  void ScoreThese(std::span<const uint32_t> rows, std::vector<ScoredRow>* scored) {
    for (size_t begin = 0; begin < rows.size(); begin += ids_.size()) {
      const size_t n = std::min(ids_.size(), rows.size() - begin);
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(begin), n, ids_.begin());
      Score(n);
      for (size_t i = 0; i < n; ++i) scored->push_back({scores_[i], ids_[i]});
    }
  }

  uint32_t id(size_t i) const { return ids_[i]; }
  float score(size_t i) const { return scores_[i]; }
  int64_t evaluations() const { return evaluations_; }
  int64_t work() const { return work_; }  // the same, and links that were only looked at

 private:
  // Whether a row passes and is new; it is visited then. No row is asked about twice.
  static bool Passing(uint32_t row, Visited& visited, Visited& failed, absl::FunctionRef<bool(uint32_t)> pass) {
    if (visited.Test(row) || failed.Test(row)) return false;
    (pass(row) ? visited : failed).TestAndSet(row);
    return visited.Test(row);
  }

  void Score(size_t n) {
    evaluations_ += static_cast<int64_t>(n);
    work_ += static_cast<int64_t>(n);
    score_(ids_.data(), n, scores_.data());
  }

  const Graph& graph_;
  const RowScorer score_;
  std::vector<uint32_t> ids_;
  std::vector<float> scores_;
  std::vector<uint32_t> bridges_;
  int64_t evaluations_ = 0, work_ = 0;
};

// Runs a beam search that `expand`s rows, and tells the caller's two limits from its end.
template <typename Expand>
absl::StatusOr<WalkResult> Run(const Graph& graph, Walk& walk, const WalkLimits& limits,
                               std::span<const ScoredRow> starts, absl::FunctionRef<bool(uint32_t)> accept,
                               absl::FunctionRef<absl::Status()> interrupted, const Expand& expand) {
  WalkResult result;
  std::vector<ScoredRow> frontier;
  result.rows.reserve(static_cast<size_t>(limits.ef) + 1);
  absl::Status status;
  int64_t check_at = kEvaluationsBetweenChecks;
  BeamSearch(
      starts, static_cast<size_t>(limits.ef), frontier, result.rows,
      [&](uint32_t row, const auto& visit) {
        const size_t n = expand(row);
        for (size_t i = 0; i < n; ++i) visit({walk.score(i), walk.id(i)});
      },
      [&](uint32_t row) { PrefetchLinks(graph, row); }, accept,
      [&] {
        result.gave_up = walk.work() > limits.evaluations_max;
        if (result.gave_up || walk.work() < check_at) return result.gave_up;
        check_at += kEvaluationsBetweenChecks;
        status = interrupted();
        return !status.ok();
      });
  LC_RETURN_IF_ERROR(status);
  result.evaluations = walk.evaluations();
  return result;
}

}  // namespace

absl::StatusOr<WalkResult> WalkGraph(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                     absl::FunctionRef<bool(uint32_t)> accept,
                                     absl::FunctionRef<absl::Status()> interrupted) {
  thread_local Visited visited;
  visited.Begin(static_cast<size_t>(graph.rows()));
  Walk walk(graph, score);
  const ScoredRow start = walk.Descend();
  visited.TestAndSet(start.row);
  return Run(graph, walk, limits, {&start, 1}, accept, interrupted,
             [&](uint32_t row) { return walk.Expand(row, visited); });
}

absl::StatusOr<WalkResult> WalkPassing(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                       std::span<const uint32_t> seeds, absl::FunctionRef<bool(uint32_t)> pass,
                                       absl::FunctionRef<bool(uint32_t)> accept,
                                       absl::FunctionRef<absl::Status()> interrupted) {
  thread_local Visited visited, failed;
  visited.Begin(static_cast<size_t>(graph.rows()));
  failed.Begin(static_cast<size_t>(graph.rows()));
  Walk walk(graph, score);
  const ScoredRow nearest = walk.Descend();
  const bool nearest_passes = pass(nearest.row);
  std::vector<ScoredRow> starts = {nearest};
  visited.TestAndSet(nearest.row);
  std::vector<uint32_t> others;
  for (const uint32_t seed : seeds) {
    if (!visited.TestAndSet(seed)) others.push_back(seed);
  }
  walk.ScoreThese(others, &starts);
  return Run(
      graph, walk, limits, starts,
      [&](uint32_t row) { return (row != nearest.row || nearest_passes) && accept(row); }, interrupted,
      [&](uint32_t row) { return walk.ExpandPassing(row, visited, failed, pass); });
}

}  // namespace lightcone
