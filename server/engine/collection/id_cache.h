// External ids of rows by internal id: what every hit of a search needs, and what never changes while it is needed (an
// internal id belongs to one content of one item and is never used again). Bounded; what it lacks, the store has.
// Threads: all methods are safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "store/records.h"

namespace lightcone::server {

class IdCache {
 public:
  // Ids kept at most, and the longest text that is kept: 16 MiB at most all together, nothing until it is used. At
  // least the newest half of them is there.
  static constexpr size_t kIdsMax = 96 * 1024, kTextBytesMax = 48;

  std::optional<ItemId> Find(uint64_t internal_id) const;

  // `id`: what the store's key from `internal_id` holds, or held for a row that a view still has.
  void Add(uint64_t internal_id, const ItemId& id);

 private:
  static constexpr size_t kShards = 64, kIdsOfTableMax = kIdsMax / kShards / 2;
  // A cache line each: readers of different rows do not wait for each other.
  struct alignas(64) Shard {
    mutable absl::Mutex mu;
    // When the newer table is full it becomes the older one, whose ids go: a new working set is never kept out.
    absl::flat_hash_map<uint64_t, ItemId> newer ABSL_GUARDED_BY(mu), older ABSL_GUARDED_BY(mu);
  };
  static size_t ShardOf(uint64_t internal_id) { return internal_id % kShards; }

  std::array<Shard, kShards> shards_;
};

}  // namespace lightcone::server
