#include "index/graph_walk.h"

#include <algorithm>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr int64_t kEvaluationsBetweenChecks = 4096;

void PrefetchLinks(const Graph& graph, uint32_t row) {
  const std::span<const int32_t> links = graph.Links(row, 0);
  for (size_t i = 0; i < links.size(); i += 16) __builtin_prefetch(links.data() + i);
}

class Walk {
 public:
  Walk(const Graph& graph, RowScorer score)
      : graph_(graph),
        score_(score),
        ids_(static_cast<size_t>(graph.width_max())),
        scores_(static_cast<size_t>(graph.width_max())) {}

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

  uint32_t id(size_t i) const { return ids_[i]; }
  float score(size_t i) const { return scores_[i]; }
  int64_t evaluations() const { return evaluations_; }

 private:
  void Score(size_t n) {
    evaluations_ += static_cast<int64_t>(n);
    score_(ids_.data(), n, scores_.data());
  }

  const Graph& graph_;
  const RowScorer score_;
  std::vector<uint32_t> ids_;
  std::vector<float> scores_;
  int64_t evaluations_ = 0;
};

}  // namespace

absl::StatusOr<WalkResult> WalkGraph(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                     absl::FunctionRef<bool(uint32_t)> accept,
                                     absl::FunctionRef<absl::Status()> interrupted) {
  thread_local Visited visited;
  visited.Begin(static_cast<size_t>(graph.rows()));
  Walk walk(graph, score);
  WalkResult result;
  std::vector<ScoredRow> frontier;
  result.rows.reserve(static_cast<size_t>(limits.ef) + 1);
  const ScoredRow start = walk.Descend();
  visited.TestAndSet(start.row);
  absl::Status status;
  int64_t check_at = kEvaluationsBetweenChecks;
  BeamSearch(
      start, static_cast<size_t>(limits.ef), frontier, result.rows,
      [&](uint32_t row, const auto& visit) {
        const size_t n = walk.Expand(row, visited);
        for (size_t i = 0; i < n; ++i) visit({walk.score(i), walk.id(i)});
      },
      [&](uint32_t row) { PrefetchLinks(graph, row); }, accept,
      [&] {
        result.gave_up = walk.evaluations() > limits.evaluations_max;
        if (result.gave_up || walk.evaluations() < check_at) return result.gave_up;
        check_at += kEvaluationsBetweenChecks;
        status = interrupted();
        return !status.ok();
      });
  LC_RETURN_IF_ERROR(status);
  result.evaluations = walk.evaluations();
  return result;
}

}  // namespace lightcone
