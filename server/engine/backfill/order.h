// The order of one collection's lazy backfill: the record of what was started, and the thread that orders the items.
// Record and order are in the store.
// Threads: every method is safe from any thread. One caller at a time calls Halt, Begin and Resume.
// Locks: `scan_mu` serialises whoever reads or makes the order or writes the record, during I/O too. "REQUIRES: scan"
// means that the caller holds it. `mu_` is taken after it and never during I/O, so Status() never waits for the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "models/failure_head_file.h"
#include "server/engine/api/types.h"
#include "server/engine/backfill/pace.h"
#include "server/engine/collection/collection.h"
#include "server/engine/collection/meta.h"

namespace lightcone::server {

struct BackfillCounts {
  uint64_t done = 0, left = 0;
};
// Items that `generation` embedded and serves, and items that it can still embed. Items that a newer generation
// embedded before a rollback, and `generation` did not, are neither: a view of it serves their older embedding.
BackfillCounts CountsOf(const ProgressRecord& progress, uint32_t generation);

class BackfillOrder {
 public:
  // `begin_order` runs under `scan_mu` when a new order is in the store, before record() tells of it.
  BackfillOrder(Collection* collection, absl::Mutex* scan_mu, std::function<void()> begin_order)
      : collection_(collection), scan_mu_(scan_mu), begin_order_(std::move(begin_order)) {}
  ~BackfillOrder() { Halt(); }

  // Ends the ordering that is under way and allows none until Begin or Resume.
  // The caller does not hold `scan_mu`.
  void Halt();
  // Takes over a record that the store holds, and orders the items unless they are ordered. REQUIRES: scan, halted.
  void Begin(BackfillRecord record, std::optional<FailureHeadFile> head);
  // Resumes an ordering that Halt, or the activation of another generation, ended. REQUIRES: scan.
  void Resume();
  // Orders all items anew, unless that is under way, halted or paused, or stopped. REQUIRES: scan.
  void Start();
  // Writes the changed record and `also` in one batch by `write`. NOT_FOUND before a start. The end of a pause resumes
  // an ordering that was ended or failed. REQUIRES: scan.
  OperatorWrite SetPaused(bool paused, absl::FunctionRef<OperatorWrite(const WriteBatch&)> write, WriteBatch also,
                          const StartBackfillCall* pace);

  struct Snapshot {
    BackfillRecord record;
    uint64_t left = 0;  // items that the generation can still embed
    BackfillState state = BackfillState::kNone;
  };
  std::optional<Snapshot> TakeSnapshot() const;  // nullopt before a start
  std::optional<BackfillRecord> record() const;
  BackfillStatus Status() const;  // without what the leases and the encoder add
  bool IsWanted() const;          // neither paused nor stopped
  // The generation that embeds items now, without a lock; 0: paused or never started.
  uint32_t embedding_generation() const { return embedding_generation_.load(); }
  void NoteProgress(absl::Time now);
  uint64_t starts() const;

 private:
  void RunOrdering(BackfillRecord record, const FailureHeadFile* head);  // the thread
  absl::Status OrderOnce(BackfillRecord* record, const FailureHeadFile* head);
  absl::Status OrderItems(const BackfillRecord& record, const FailureHeadFile* head);
  absl::Status StoreRecord(const BackfillRecord& record) const;
  // Takes over what calls changed while the thread orders: the pause and the pace.
  void FollowPace(BackfillRecord* record) const;
  void PutRecord(const BackfillRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayOrder() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  BackfillState StateLocked(uint64_t left) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the generation serves, or the backfill goes ahead of that: no newer one serves, and it did not since then.
  bool IsDue(const BackfillRecord& record) const;

  Collection* const collection_;
  absl::Mutex* const scan_mu_;
  const std::function<void()> begin_order_;
  std::atomic<uint32_t> embedding_generation_{0};
  std::atomic<bool> stop_{false};    // for the thread: Halt waits for it
  std::atomic<int64_t> ordered_{0};  // items that the thread has ordered
  std::thread orderer_;              // belongs to Halt's caller while halted, else to the holder of `scan_mu`

  mutable absl::Mutex mu_;
  bool halted_ ABSL_GUARDED_BY(mu_) = true;
  bool ordering_ ABSL_GUARDED_BY(mu_) = false;  // orderer_ runs
  std::optional<BackfillRecord> record_ ABSL_GUARDED_BY(mu_);
  std::optional<FailureHeadFile> head_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);  // of the last ordering
  uint64_t starts_ ABSL_GUARDED_BY(mu_) = 0;
  Growth growth_ ABSL_GUARDED_BY(mu_);              // of the items that are done
  bool growth_serves_ ABSL_GUARDED_BY(mu_) = true;  // whether growth_ counts for a generation that serves
};

}  // namespace lightcone::server
