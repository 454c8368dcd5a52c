// How fast work in the background may go beside searches: a rate that is halved while searches are slower than a bound,
// and comes back afterwards; and how fast a count grows, for an ETA.
// Threads: SearchTimes is safe from any thread; the others belong to one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone::server {

// What the searches of a collection took lately.
class SearchTimes {
 public:
  void Note(absl::Time ended, absl::Duration took) {
    absl::MutexLock lock(&mu_);
    times_[next_++ % times_.size()] = {ended, took};
  }
  // Of those that ended within the last ten seconds, up to 1,024 of them. Of fewer than 20 their median: a slow one
  // among few is chance, most of them are not. nullopt where there were none.
  std::optional<absl::Duration> P99(absl::Time now) const;

 private:
  mutable absl::Mutex mu_;
  std::array<std::pair<absl::Time, absl::Duration>, 1'024> times_ ABSL_GUARDED_BY(mu_) = {};
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
};

// Items a second, with bursts of a fifth of a second.
class Pace {
 public:
  // So many items may be begun now, at most `most`; 0: come again later. REQUIRES: rate > 0.
  int64_t Take(absl::Time now, double rate, int64_t most);
  // Searches are slower than they may be, or not: the rate is halved, down to a 64th, or grows by a quarter, up to all
  // of it, once a second.
  void Adapt(absl::Time now, bool slow);
  double share() const { return share_; }  // of the rate, that is taken now

 private:
  double share_ = 1, ready_ = 0;
  absl::Time counted_ = absl::InfinitePast(), adapted_ = absl::InfinitePast();
};

// The growth of a count over the last minute.
class Growth {
 public:
  bool Due(absl::Time now) const {
    return seen_.empty() || now < seen_.back().first || now >= seen_.back().first + absl::Seconds(1);
  }
  // At most once a second. A count that falls begins anew.
  void Note(absl::Time now, uint64_t count);
  double PerSecond() const;

 private:
  std::deque<std::pair<absl::Time, uint64_t>> seen_;
};

}  // namespace lightcone::server
