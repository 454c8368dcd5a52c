// Rows that walks without a filter have met, filtered in the end (plan_cost.h, post-filter).
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

struct MetRow {
  float score = 0;
  double error = 0;  // of the score
  size_t walk = 0;   // that met it
  uint32_t row = 0;
};

// Of scores that are known to be at least so large, the `wanted` largest.
class LowerEnds {
 public:
  // Of which so many are known to be at least `floor`.
  LowerEnds(int64_t wanted, double floor) : wanted_(static_cast<size_t>(std::max<int64_t>(1, wanted))), floor_(floor) {}
  // A score below it is none of the largest.
  double floor() const { return heap_.size() < wanted_ ? floor_ : std::max(floor_, heap_.front()); }
  void Add(double end) {
    heap_.push_back(end);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    if (heap_.size() <= wanted_) return;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
  }

 private:
  size_t wanted_;
  double floor_;
  std::vector<double> heap_;  // the least first
};

// Those of the rows that are accepted, nearest first, without such as can be none of `wanted` hits once there are
// enough: a row's state and id are elsewhere in memory, and asking for them costs more than walking. nullopt where
// fewer are accepted than a walk is trusted with, unless what is farther than the rows met is none of the hits. `ends`
// has the accepted ones then.
std::optional<std::vector<MetRow>> NearestAccepted(std::vector<MetRow> met, int64_t wanted, LowerEnds& ends,
                                                   absl::FunctionRef<bool(const MetRow&)> accepts);

}  // namespace lightcone
