// The k nearest hits of those offered: ascending distance, ties by internal id.
// Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "index/api/search.h"

namespace lightcone {

class TopHits {
 public:
  // REQUIRES: k >= 1.
  explicit TopHits(int64_t k) : k_(static_cast<size_t>(k)) { LC_DCHECK(k >= 1); }

  // No farther hit gets in; +inf until there are k.
  double worst() const { return hits_.size() < k_ ? std::numeric_limits<double>::infinity() : hits_.front().distance; }

  // Returns whether the hit got in.
  bool Add(const SearchHit& hit) {
    if (hits_.size() < k_) {
      hits_.push_back(hit);
    } else {
      if (!Nearer(hit, hits_.front())) return false;
      std::pop_heap(hits_.begin(), hits_.end(), Nearer);
      hits_.back() = hit;
    }
    std::push_heap(hits_.begin(), hits_.end(), Nearer);
    return true;
  }

  std::vector<SearchHit> Take() {
    std::sort_heap(hits_.begin(), hits_.end(), Nearer);
    return std::exchange(hits_, {});
  }

 private:
  static bool Nearer(const SearchHit& x, const SearchHit& y) {
    return x.distance != y.distance ? x.distance < y.distance : x.internal_id < y.internal_id;
  }

  const size_t k_;
  std::vector<SearchHit> hits_;  // a heap, the farthest first
};

}  // namespace lightcone
