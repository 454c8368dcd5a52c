// The beam search of HNSW (Malkov and Yashunin, arXiv 1603.09320, algorithm 2), over the links of a finished graph
// (graph_walk.h) and of one that grows (graph_inserter.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lightcone {

struct ScoredRow {
  float score = 0;  // higher is nearer
  uint32_t row = 0;
};

// Objects, not functions: heaps call them inline.
inline constexpr auto Better = [](const ScoredRow& x, const ScoredRow& y) { return x.score > y.score; };
inline constexpr auto Worse = [](const ScoredRow& x, const ScoredRow& y) { return x.score < y.score; };

// Marks of visited rows: a new epoch clears them. One a thread.
class Visited {
 public:
  void Begin(size_t rows) {
    if (marks_.size() < rows) marks_.resize(rows, 0);
    if (++epoch_ == 0) {
      std::fill(marks_.begin(), marks_.end(), 0);
      epoch_ = 1;
    }
  }
  bool Test(uint32_t row) const { return marks_[row] == epoch_; }
  // Without a branch, which nobody could predict.
  bool TestAndSet(uint32_t row) {
    const bool was = marks_[row] == epoch_;
    marks_[row] = epoch_;
    return was;
  }

 private:
  std::vector<uint16_t> marks_;
  uint16_t epoch_ = 0;
};

// The `ef` best rows that accept(row) lets through, in no particular order, into `found`; `frontier` is scratch.
// It begins at `starts`.
//   expand(scored, visit)  collects the links of that row that were not visited, scores them, and visits each
//   prefetch(row)          `row` is most often the next to be expanded
//   stop()                 asked after every expansion; true ends the search with what is there
template <typename Expand, typename Prefetch, typename Accept, typename Stop>
void BeamSearch(std::span<const ScoredRow> starts, size_t ef, std::vector<ScoredRow>& frontier, std::vector<ScoredRow>& found,
                const Expand& expand, const Prefetch& prefetch, const Accept& accept, const Stop& stop) {
  frontier.clear();  // max-heap: the nearest row not expanded yet comes first
  found.clear();     // min-heap: the worst accepted row comes first
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
  for (const ScoredRow& start : starts) visit(start);
  while (!frontier.empty()) {
    const ScoredRow next = frontier.front();
    if (found.size() >= ef && next.score < found.front().score) return;
    std::pop_heap(frontier.begin(), frontier.end(), Worse);
    frontier.pop_back();
    if (!frontier.empty()) prefetch(frontier.front().row);
    expand(next, visit);
    if (stop()) return;
  }
}

// The same where every row is accepted: the frontier then is those of the `ef` best rows that are not expanded yet, so
// that one sorted list does for two heaps. `found` is nearest first. REQUIRES: row numbers below 2^31.
template <typename Expand, typename Prefetch, typename Stop>
void BeamSearchOfAll(std::span<const ScoredRow> starts, size_t ef, std::vector<ScoredRow>& found, const Expand& expand,
                     const Prefetch& prefetch, const Stop& stop) {
  constexpr uint32_t kExpanded = uint32_t{1} << 31;  // marks a row in the list
  found.clear();
  size_t next = 0;  // of the list, the first that may not be expanded
  const auto visit = [&](ScoredRow row) {
    if (found.size() >= ef) {
      if (row.score <= found.back().score) return;
      found.pop_back();
    }
    size_t at = 0;
    for (size_t n = found.size(); n > 0;) {
      const size_t half = (n + 1) / 2;
      at = found[at + half - 1].score >= row.score ? at + half : at;
      n -= half;
    }
    found.insert(found.begin() + static_cast<std::ptrdiff_t>(at), row);
    next = std::min(next, at);
  };
  const auto skip_expanded = [&](size_t from) {
    while (from < found.size() && (found[from].row & kExpanded) != 0) ++from;
    return from;
  };
  for (const ScoredRow& start : starts) visit(start);
  for (bool stopped = false; !stopped && (next = skip_expanded(next)) < found.size();) {
    const ScoredRow row = found[next];
    found[next].row |= kExpanded;
    next = skip_expanded(next + 1);
    if (next < found.size()) prefetch(found[next].row);
    expand(row, visit);
    stopped = stop();
  }
  for (ScoredRow& row : found) row.row &= ~kExpanded;
}

}  // namespace lightcone
