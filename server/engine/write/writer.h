// The one writer of a collection. Callers queue jobs; the first in the queue becomes the leader, takes what has
// gathered behind it, and writes the group to the store as one batch. While that waits for the disk and enters the
// index, the next group is planned and written. Groups enter the index in the order in which they entered the store,
// once the disk has them (or has failed, for what is in the store is served), and are acknowledged after that. Threads:
// Submit is safe from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/collection.h"

namespace lightcone::server {

// One item of an upsert, checked and encoded by its caller.
struct PreparedItem {
  ItemId id;
  std::string key;       // key in table kItems
  std::vector<float> z;  // vector before the clip
  float uncertainty = 0;
  std::string embedding;  // encoded EmbeddingRecord
  std::string payload_json;
  std::optional<std::string> input;  // input to keep
  std::optional<uint64_t> expected_sequence;
  int64_t ttl_ms = 0;  // of new content; 0: it stays
};

// An item as it was read.
struct ExpectedHead {
  uint64_t internal_id = 0;
  uint64_t sequence = 0;
};

// Times of the steady clock in nanoseconds; 0: the job did not come so far.
struct WriteTimes {
  int64_t taken = 0;    // Its group began.
  int64_t stored = 0;   // The store has it, as durable as it asks for.
  int64_t applied = 0;  // Searches see it.
};

// One RPC batch: an upsert (items), a delete, or a change of payloads (ids). Takes effect as a whole or not at all.
struct WriteJob {
  uint32_t generation = 0;       // 0: a delete or a change of payloads
  uint32_t drop_generation = 0;  // retired generation whose embeddings go; 0: the items themselves go
  bool same_content = false;
  bool keep_payload = false;  // UpsertBatch::keep_payload
  std::vector<PreparedItem> items;
  std::vector<ItemId> ids;
  // The heads that the items must still have, one an id; an item with another head stays as it is, unless still_wanted
  // says otherwise. Empty: any.
  std::vector<ExpectedHead> expected;
  // Whether an item that was written after it was read is meant all the same. The writer calls it; empty: it is not.
  std::function<bool(const ItemId& id, const ExpectedHead& read, const ItemRecord& now)> still_wanted;
  // The payload of an item after a change; an error refuses the whole job. The writer calls it with the newest payload,
  // so that no change is lost. Empty: no change of payloads.
  std::function<absl::StatusOr<std::string>(const ItemId& id, const std::string& payload_json)> new_payload;
  size_t bytes_added = 0;  // bytes by which each payload grows, and more where a key leads into arrays
  Durability durability = Durability::kDurable;

  // Owned by the writer from Submit on.
  size_t bytes = 0;  // approximate bytes that the job puts into the store
  bool taken = false, done = false;
  absl::Status status;
  WriteResult result;
  size_t written = 0;           // items, without those that were there already
  std::vector<size_t> missing;  // places of ids without an item, of a change of payloads
  WriteTimes times;
};

class WriteGroup;
struct GroupOutcome;

class CollectionWriter {
 public:
  // `collection` must outlive it.
  CollectionWriter(Collection* collection, int64_t queue_max);

  // Returns when the job is in the store, as durable as it asks for, and visible to searches. Waits while the index has
  // no room for a job's items. RESOURCE_EXHAUSTED when the queue is full or the disk is, or nothing makes room;
  // NOT_FOUND and FAILED_PRECONDITION name the item that refuses a same_content upsert; DEADLINE_EXCEEDED and CANCELLED
  // only before the writing has begun, so that nothing of the job happens.
  absl::StatusOr<WriteResult> Submit(WriteJob* job, const CallContext& context);
  // Why it takes no writes until a restart; OK otherwise. Safe from any thread.
  absl::Status broken() const;

 private:
  // Submit, but for the spans of the job.
  absl::StatusOr<WriteResult> Await(WriteJob* job, const CallContext& context);
  // Without room for items: up to the first job that has any.
  std::vector<WriteJob*> TakeGroup(bool room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Lead(bool room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Puts the jobs behind the first `kept` of a group in front of the queue, in their order.
  void GiveBack(size_t kept, std::vector<WriteJob*>* jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Collection::AwaitRoom outside of the lock; true for a collection that has been dropped.
  absl::StatusOr<bool> AwaitRoom(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The parts of Lead outside of the lock. Whatever they throw becomes the status of every job: a leader that did
  // not come back would keep everybody waiting.
  GroupOutcome WriteToStore(const std::vector<WriteJob*>& jobs, absl::Status refused, std::optional<WriteGroup>* group);
  absl::Status Sync(WriteGroup* group);
  absl::Status ApplyToIndex(WriteGroup* group);
  absl::Status Broken(const absl::Status& why) const;
  void SetBroken(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Collection* const collection_;
  const int64_t queue_max_;

  mutable absl::Mutex mu_;
  std::deque<WriteJob*> queue_ ABSL_GUARDED_BY(mu_);
  int64_t in_flight_ ABSL_GUARDED_BY(mu_) = 0;  // jobs taken and not done
  bool leading_ ABSL_GUARDED_BY(mu_) = false;   // a group is on its way to the store
  uint64_t groups_written_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t groups_applied_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status broken_ ABSL_GUARDED_BY(mu_);  // store and index may differ: writes are refused until a restart

  ProgressRecord progress_;  // progress of the last group in the store; only the leader uses it
};

}  // namespace lightcone::server
