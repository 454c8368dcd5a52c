// Broader walks where live searches find too little: the recall of sampled searches that named no breadth is held
// against the promised one, for each pair of generations.
// Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

class LiveBreadths {
 public:
  static constexpr double kFactorMax = 8;

  // One sampled search: of `expected` hits of the exact search in this pair, `found` were found. Recall below the
  // promise for a minute doubles the pair's factor, up to kFactorMax. A doubling that gains nothing is undone, and none
  // follows for an hour: broader walks do not help there. Recall well above the promise for ten minutes halves the
  // factor.
  void Record(uint32_t query_generation, uint32_t item_generation, double expected, double found, absl::Time now);

  // Factor of the breadth of a search that names none; 1 or more. Costs one atomic read while every factor is 1.
  double FactorOf(uint32_t query_generation, uint32_t item_generation) const;

  // Factors above 1.
  std::vector<LiveBreadth> Status() const;

 private:
  struct Pair {
    double expected = 0, found = 0;  // older samples weigh less
    absl::Time below_since = absl::InfiniteFuture(), above_since = absl::InfiniteFuture();
    double factor = 1;
    double recall_before = -1;  // recall when the factor was doubled; below 0: it was not
    absl::Time useless_until = absl::InfinitePast();
  };

  std::atomic<bool> any_{false};  // some factor is above 1
  mutable absl::Mutex mu_;
  std::map<std::pair<uint32_t, uint32_t>, Pair> pairs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone::server
