// How fast background work may go beside searches, and how fast a count grows, for an ETA.
// Threads: SearchTimes is safe from any thread. A Pace and a Growth belong to one thread each.
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

// How long the latest searches of a collection took.
class SearchTimes {
 public:
  void Note(absl::Time ended, absl::Duration took) {
    absl::MutexLock lock(&mu_);
    times_[next_++ % times_.size()] = {ended, took};
  }
  // The 99th percentile of up to 1,024 searches that ended within the last ten seconds. Of fewer than 20 searches the
  // median, because one slow search among few is chance. nullopt without searches.
  std::optional<absl::Duration> P99(absl::Time now) const;

 private:
  mutable absl::Mutex mu_;
  std::array<std::pair<absl::Time, absl::Duration>, 1'024> times_ ABSL_GUARDED_BY(mu_) = {};
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
};

// Items a second, in bursts.
class Pace {
 public:
  static constexpr absl::Duration kBurst = absl::Milliseconds(200);

  // How many items may begin now, at most `most`, and at most those of `burst`. REQUIRES: rate > 0, burst > 0.
  int64_t Take(absl::Time now, double rate, int64_t most, absl::Duration burst = kBurst);
  // Items of the last Take that there were not.
  void GiveBack(int64_t items) { ready_ += static_cast<double>(items); }
  // Once a second: halves the rate, down to a 64th, while searches are too slow. Else raises it by a quarter, up to the
  // whole rate.
  void Adapt(absl::Time now, bool slow);
  double share() const { return share_; }  // share of the rate that Take grants

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
  // Takes at most one count a second. A count that falls begins anew.
  void Note(absl::Time now, uint64_t count);
  double PerSecond() const;

 private:
  std::deque<std::pair<absl::Time, uint64_t>> seen_;
};

}  // namespace lightcone::server
