// Items of older generations that searches found lately, for a lazy backfill to take before all others: what users look
// at is worth embedding anew first. In memory alone: after a restart searches tell it again. Threads: safe.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

class TouchedItems {
 public:
  static constexpr size_t kItemsMax = 16'384;  // that wait; while there are so many, no more are noted
  static constexpr size_t kHitsMax = 100;      // of a query that count: further down nobody looks

  // The hits whose embedding is older than `generation`. What waits already keeps its place. A search does not wait
  // here, nor does it fail: beside another call, or without memory, it notes nothing, for there are more searches.
  void Note(const SearchAnswer& answer, uint32_t generation);
  // Up to `count`, in the order in which they were found; they wait no more until they are found again.
  std::vector<ItemId> Take(size_t count);

 private:
  void NoteHits(const SearchAnswer& answer, uint32_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  std::deque<ItemId> order_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<ItemId> waiting_ ABSL_GUARDED_BY(mu_);  // those in order_
};

}  // namespace lightcone::server
