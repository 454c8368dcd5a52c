// Items of older generations that searches returned lately. A lazy backfill takes them before all others, because users
// look at them. They are in memory alone: after a restart searches return them again. Threads: safe.
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
  static constexpr size_t kItemsMax = 16'384;  // items that wait; further ones are not noted
  static constexpr size_t kHitsMax = 100;      // hits of a query that count, because nobody looks further down

  // Notes hits whose embedding is older than `generation`. An item that waits already keeps its place. Never waits or
  // fails: beside another call, or without memory, it notes nothing, because more searches come.
  void Note(const SearchAnswer& answer, uint32_t generation);
  // Removes and returns up to `count` items, in the order in which searches returned them.
  std::vector<ItemId> Take(size_t count);

 private:
  void NoteHits(const SearchAnswer& answer, uint32_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  std::deque<ItemId> order_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<ItemId> waiting_ ABSL_GUARDED_BY(mu_);  // the items of order_
};

}  // namespace lightcone::server
