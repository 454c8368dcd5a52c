#include "index/graph_walk.h"

#include <algorithm>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr int64_t kEvaluationsBetweenChecks = 4096;

bool Better(const ScoredRow& x, const ScoredRow& y) { return x.score > y.score; }
bool Worse(const ScoredRow& x, const ScoredRow& y) { return x.score < y.score; }

// Marks of visited rows, one set a thread for all graphs: a new epoch clears it.
class Visited {
 public:
  void Begin(size_t rows) {
    if (marks_.size() < rows) marks_.resize(rows, 0);
    if (++epoch_ == 0) {
      std::fill(marks_.begin(), marks_.end(), 0);
      epoch_ = 1;
    }
  }
  bool TestAndSet(uint32_t row) {
    if (marks_[row] == epoch_) return true;
    marks_[row] = epoch_;
    return false;
  }

 private:
  std::vector<uint16_t> marks_;
  uint16_t epoch_ = 0;
};

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
          if (link < 0) break;
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
      if (link < 0) break;
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
  const size_t ef = static_cast<size_t>(limits.ef);
  Walk walk(graph, score);
  WalkResult result;
  std::vector<ScoredRow> frontier;              // max-heap: the nearest row not expanded yet comes first
  std::vector<ScoredRow>& found = result.rows;  // min-heap: the worst accepted row comes first
  found.reserve(ef + 1);
  const auto visit = [&](ScoredRow row) {
    if (found.size() >= ef && row.score <= found.front().score) return;
    frontier.push_back(row);
    std::push_heap(frontier.begin(), frontier.end(), Worse);
    if (!accept(row.row)) return;
    found.push_back(row);
    std::push_heap(found.begin(), found.end(), Better);
    if (found.size() > ef) {
      std::pop_heap(found.begin(), found.end(), Better);
      found.pop_back();
    }
  };

  const ScoredRow start = walk.Descend();
  visited.TestAndSet(start.row);
  visit(start);
  int64_t check_at = kEvaluationsBetweenChecks;
  while (!frontier.empty()) {
    const ScoredRow next = frontier.front();
    if (found.size() >= ef && next.score < found.front().score) break;
    std::pop_heap(frontier.begin(), frontier.end(), Worse);
    frontier.pop_back();
    if (!frontier.empty()) PrefetchLinks(graph, frontier.front().row);  // most often the next to be expanded
    const size_t n = walk.Expand(next.row, visited);
    for (size_t i = 0; i < n; ++i) visit({walk.score(i), walk.id(i)});
    if (walk.evaluations() > limits.evaluations_max) {
      result.gave_up = true;
      break;
    }
    if (walk.evaluations() >= check_at) {
      check_at += kEvaluationsBetweenChecks;
      LC_RETURN_IF_ERROR(interrupted());
    }
  }
  result.evaluations = walk.evaluations();
  return result;
}

}  // namespace lightcone
