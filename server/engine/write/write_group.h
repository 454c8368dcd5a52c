// A group of jobs on its way: planned against the heads that the store holds and what earlier jobs of the group leave
// behind, written as one batch, then applied to the index.
// Threads: one at a time; Sync and ApplyToIndex may run while the next group's WriteToStore does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/engine/collection/collection.h"
#include "server/engine/write/writer.h"

namespace lightcone::server {

struct GroupOutcome {
  bool in_store = false;  // Sync and ApplyToIndex must follow
  absl::Status broken;    // nobody knows what the store holds: no more writes
};

class WriteGroup {
 public:
  // `progress` is the leader's: moved on when the batch is in the store. REQUIRES: there is a job.
  WriteGroup(Collection* collection, std::vector<WriteJob*> jobs, ProgressRecord* progress);

  // Sets status and result of every job that the group keeps. In the log, but not on the disk yet.
  GroupOutcome WriteToStore();

  // Whether the store may hold something of the group. False after a throw: all was planned in memory.
  bool wrote() const { return wrote_; }
  // The jobs of the group. WriteToStore keeps the first ones alone where the stored items that the others name are too
  // large to be held together; it has not touched the others.
  const std::vector<WriteJob*>& jobs() const { return jobs_; }

  // REQUIRES: in_store, and the first call. Waits for the disk where a job asks for that; an error becomes the status
  // of every job.
  void Sync();

  // REQUIRES: Sync has returned. Afterwards searches see the group. An error means that index and store differ.
  absl::Status ApplyToIndex();

 private:
  // An item as the group so far leaves it; nullopt: not there.
  using Head = std::optional<ItemRecord>;
  struct Change {
    uint64_t sequence = 0;
    std::vector<RowChange> rows;                // z points into the job
    std::vector<PayloadIndex::Entry> payloads;  // payloads of new contents, which point into the job
    std::vector<PayloadIndex::Replacement> replaced;
  };

  // Drops the last jobs where there are too many bytes of heads. The first job is kept, however large its heads are.
  void ReadHeads();
  // Keeps what the store answered for a key.
  void AddHead(const std::string& key, const absl::StatusOr<std::string>& stored);
  // Of the first head that the job needs and nobody can read.
  absl::Status DamageOf(const WriteJob& job) const;
  // The answer to all upserts of the group where the disk has no room for them.
  absl::Status CheckRoom() const;
  void PlanUpsert(WriteJob* job);
  // Whether there is such an item, and it has not expired. One that has is content that is still to be removed.
  bool Lives(const Head& head) const { return head && !IsExpired(*head, now_ms_); }
  // Whether the item is still as it was read for the job, or is meant all the same.
  static bool IsWanted(const WriteJob& job, size_t i, const ItemRecord& head);
  void PlanDelete(WriteJob* job);
  // Head records change, and nothing else: contents keep their internal ids, embeddings and inputs.
  void PlanPayloads(WriteJob* job);
  // The new payload, counted by how much more it is longer than the job says. RESOURCE_EXHAUSTED: more than a group may
  // hold; `before`: what its other jobs made.
  absl::StatusOr<std::string> WithinGrowth(const WriteJob& job, size_t before, const std::string& from, std::string to);
  // Plans a job by its kind.
  void Plan(WriteJob* job);
  // The index is not told: the whole generation leaves it when the last of its embeddings is gone.
  void PlanDropGeneration(WriteJob* job);
  // Places of the items to be written. Left out: with same_content what holds exactly this embedding already (a retry),
  // and what is not as expected_sequence says, which goes to `outdated`.
  absl::StatusOr<std::vector<size_t>> ItemsToWrite(const WriteJob& job, std::vector<uint32_t>* outdated) const;
  bool IsThere(const PreparedItem& item, uint32_t generation, const Head& head) const;
  absl::Status CheckSameContent(const WriteJob& job, size_t i) const;
  void RemoveContent(const ItemId& id, const Head& head, ChangeRecord* log, Change* change);
  void AddNewContent(PreparedItem& item, const WriteJob& job, Head* head, ChangeRecord* log, Change* change);
  void AddEmbedding(PreparedItem& item, uint32_t generation, Head* head, ChangeRecord* log, Change* change);
  // The generations, ascending, with those that the index has rows of besides.
  std::vector<uint32_t> WithLeaving(std::vector<uint32_t> generations) const;
  // Moves what is to be stored out of the item.
  void PutEmbedding(PreparedItem& item, uint32_t generation, const ItemRecord& record);
  void Finish(ChangeRecord log, Change change);
  void Count(const std::vector<uint32_t>& generations, int64_t by);

  Collection* const collection_;
  const uint32_t number_;
  const int64_t now_ms_;
  std::vector<WriteJob*> jobs_;
  ProgressRecord* const leader_progress_;
  ProgressRecord progress_;  // progress after this group
  WriteBatch batch_;
  bool durable_ = false;                                    // A job asks for durability.
  bool synced_ = false;                                     // Sync was called.
  bool wrote_ = false;                                      // The store was asked to write.
  absl::flat_hash_map<std::string, Head> heads_;            // heads by key in kItems
  absl::flat_hash_map<std::string, absl::Status> damaged_;  // reasons why heads cannot be read, by key in kItems
  // What earlier jobs of the group embed, by internal id and generation; the vectors are the jobs'.
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, std::span<const float>> planned_;
  size_t grown_ = 0;  // bytes by which changes of payloads make them longer than their jobs say
  std::vector<Change> changes_;
  std::vector<RetiredItem> retired_;
  std::vector<std::pair<int64_t, uint64_t>> expiring_;  // time and internal id of new contents that expire
  std::vector<uint64_t> unexpiring_;                    // internal ids of removed ones
  uint64_t expired_ = 0;                                // number of those that have expired
  // Retired generations whose rows the index still has, though items may have forgotten them.
  std::vector<uint32_t> leaving_;
};

}  // namespace lightcone::server
