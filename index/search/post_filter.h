// Filters the rows that walks without a filter have found: post-filtering (plan_cost.h).
// Threads: reentrant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace lightcone {

struct WalkedRow {
  float score = 0;
  double error = 0;  // bound of the score's error
  size_t walk = 0;   // number of the walk that found the row
  uint32_t row = 0;
};

// The k largest of lower bounds of scores.
class LowerEnds {
 public:
  // `floor`: k rows are known whose scores are at least this.
  LowerEnds(int64_t k, double floor) : k_(static_cast<size_t>(std::max<int64_t>(1, k))), floor_(floor) {}
  // A score below it is none of the k largest.
  double floor() const { return heap_.size() < k_ ? floor_ : std::max(floor_, heap_.front()); }
  void Add(double end) {
    heap_.push_back(end);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    if (heap_.size() <= k_) return;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
  }

 private:
  size_t k_;
  double floor_;
  std::vector<double> heap_;  // min-heap
};

// The found rows that are accepted, nearest first, without rows that can be none of k hits once there are enough: a
// row's state and id are elsewhere in memory, and asking for them costs more than walking. nullopt where fewer rows are
// accepted than LeastOfPostFilter(k), unless no row farther than the found ones can be a hit. On success `ends` holds
// the accepted rows.
std::optional<std::vector<WalkedRow>> NearestAccepted(std::vector<WalkedRow> found, int64_t k, LowerEnds& ends,
                                                      absl::FunctionRef<bool(const WalkedRow&)> accepts);

}  // namespace lightcone
