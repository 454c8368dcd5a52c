// What sampled live searches of one collection showed: recall against exact search, and how distances and uncertainties
// of the hits are spread.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/engine/api/types.h"
#include "server/engine/live/live_breadths.h"

namespace lightcone::server {

// The largest distance between the two empirical distribution functions (Kolmogorov and Smirnov), 0 .. 1: 0 for equal
// samples, 1 for samples that do not overlap. REQUIRES: neither is empty.
double DistributionDistance(std::vector<float> a, std::vector<float> b);

class LiveFigures {
 public:
  // One search: what it answered, and what the exact search of the same view did. A hit of the latter is found if it,
  // or another that is exactly as near, is among the former. `filter`: "none", "broad" or "narrow". Searches that name
  // no breadth decide how broad later ones walk (breadths()).
  void Record(uint32_t query_generation, const std::string& filter, const std::vector<EngineHit>& answered,
              const std::vector<EngineHit>& exact, bool names_no_breadth = false, absl::Time now = absl::Now());
  void RecordFailure();

  LiveRecallStatus Status() const;
  LiveBreadths& breadths() { return breadths_; }
  const LiveBreadths& breadths() const { return breadths_; }

 private:
  // query generation, item generation, kind of segment, class of filter
  using RecallKey = std::tuple<uint32_t, uint32_t, std::string, std::string>;
  struct Recall {
    uint64_t expected = 0, found = 0;
    double recent_expected = 0, recent_found = 0;  // the same, older samples weighing less
  };
  // The latest values of a pair of generations, a ring.
  struct Spread {
    std::vector<float> values;
    size_t next = 0;
    uint64_t count = 0;
    double sum = 0;
    void Add(double value);
  };
  struct Pair {
    Spread distance, uncertainty;
  };

  // Whose hits those of a pair are compared with: the query generation's own, or, for those, the own hits of the
  // generation that served queries before. nullptr when there are too few.
  const Pair* ReferenceOf(uint32_t query_generation, uint32_t item_generation) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  LiveBreadths breadths_;
  mutable absl::Mutex mu_;
  uint64_t samples_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t failures_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<RecallKey, Recall> recall_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<uint32_t, uint32_t>, Pair> pairs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone::server
