// Which items of a collection have expired and are not removed yet. The store has a row for each item that expires, in
// the order of time (keys::Expiry). Those of the next minute are in memory as well: so a search leaves an item out from
// the millisecond on at which it expires, however long its removal takes.
// Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/forward_clock.h"
#include "index/rows/id_set.h"
#include "store/store.h"

namespace lightcone::server {

class Expiry {
 public:
  // `store` and `clock` must outlive it.
  Expiry(uint32_t number, const Store* store, const ForwardClock* clock)
      : number_(number), store_(store), clock_(clock) {}

  int64_t NowMs() const { return clock_->NowMs(); }

  // Reads the rows of the next minute, where that has not been done: before the collection serves, and from time to
  // time from then on. After an error of the store it can be called again.
  absl::Status LookAhead() ABSL_LOCKS_EXCLUDED(look_mutex_, mutex_);
  // Of an item that was written: after its row is in the store, and before searches can find the item.
  void Note(int64_t expires_ms, uint64_t internal_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of items that no view of the index shows any more, but those that are pinned. Not of items that were given up.
  void Forget(std::span<const uint64_t> internal_ids) ABSL_LOCKS_EXCLUDED(mutex_);

  // Internal ids of the items that have expired, as far as views may show them; nullptr: none. A search asks before it
  // pins its view, and once more after that: so it finds in here whatever that view shows and should not. Looks ahead
  // where the clock has got past what was read.
  std::shared_ptr<const IdSet> Expired() ABSL_LOCKS_EXCLUDED(look_mutex_, mutex_);
  // Some of those that are to be removed.
  std::vector<uint64_t> SomeExpired(size_t most) ABSL_LOCKS_EXCLUDED(look_mutex_, mutex_);
  // The item cannot be removed, because its record is damaged: it stays expired.
  void GiveUp(uint64_t internal_id) ABSL_LOCKS_EXCLUDED(mutex_);

  bool used() const { return used_.load(); }  // An item that expires has been seen since the start.
  void CountRemoved(uint64_t items) { removed_.fetch_add(items); }
  uint64_t removed() const { return removed_.load(); }  // number of items removed since the start

 private:
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t number_;
  const Store* const store_;
  const ForwardClock* const clock_;
  std::atomic<bool> used_{false};
  std::atomic<uint64_t> removed_{0};
  absl::Mutex look_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // held by whoever reads rows
  absl::Mutex mutex_;
  int64_t horizon_ms_ ABSL_GUARDED_BY(mutex_) = 0;     // Rows up to here are in `coming_`, or being read.
  int64_t read_until_ms_ ABSL_GUARDED_BY(mutex_) = 0;  // Rows up to here are in `coming_`.
  // Internal ids by the time at which they expire. Some may be gone already.
  std::map<int64_t, std::vector<uint64_t>> coming_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const IdSet> expired_ ABSL_GUARDED_BY(mutex_);  // replaced as a whole; nullptr: none
  IdSet given_up_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lightcone::server
