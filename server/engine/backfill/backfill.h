// The lazy backfill of one collection: orders its items, leases them to workers, hands them to the server's encoder.
// An item that is embedded anew, deleted or replaced leaves the order when a lease meets it.
// Each part has a header and a mutex of its own. This class joins them for the engine's calls.
// Threads: every method is safe from any thread. One caller at a time calls Halt, Begin and Resume.
// Locks: calls that read the order hold `scan_mu_` during their I/O. Status, StillWanted and RecordReturnedItems never
// take it, so they do not wait for the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/engine/backfill/embedding.h"
#include "server/engine/backfill/leases.h"
#include "server/engine/backfill/order.h"
#include "server/engine/backfill/pace.h"

namespace lightcone::server {

class Backfill {
 public:
  explicit Backfill(Collection* collection);  // It must outlive this.

  // Ends the ordering that is under way and allows none until Begin or Resume.
  void Halt() { order_.Halt(); }
  // Takes over what the store holds: orders the items, or resumes with the order that is there. REQUIRES: halted.
  void Begin(BackfillRecord record, std::optional<FailureHeadFile> head);
  // Resumes an ordering that Halt, or the activation of another generation, ended.
  void Resume();
  // Stops leasing, or resumes it; order and leases stay. The record changes by `write`, in one batch with `also`.
  // `pace`, if given, replaces how fast the server embeds. NOT_FOUND before a start; errors of the store.
  absl::Status SetPaused(bool paused, absl::FunctionRef<OperatorWrite(const WriteBatch&)> write, WriteBatch also = {},
                         const StartBackfillCall* pace = nullptr);

  std::optional<BackfillRecord> record() const { return order_.record(); }
  BackfillStatus Status() const;
  absl::StatusOr<LeaseAnswer> Lease(const LeaseCall& call);
  // Takes what an application's search returned: encoder and workers get these items first. Never fails or waits.
  void RecordReturnedItems(const SearchAnswer& answer);

  // Whether TakeEmbeddable is worth a call.
  bool HasEmbeddable(absl::Time now) const;
  // Up to `wanted` of the worst items whose input is stored and that nobody holds. One caller at a time takes turns and
  // finishes each. Leased and failed items rest for `between_passes` once all others were taken. Errors of the store.
  absl::StatusOr<EmbedTurn> TakeEmbeddable(size_t wanted, absl::Duration between_passes);
  // Whether a backfill was started and is neither paused nor stopped.
  bool IsWanted() const { return order_.IsWanted(); }
  // Whether no pause, rollback, start or end of the turn came in between. If so the caller holds the items for longer.
  bool StillWanted(const EmbedTurn& turn);
  // Embedded items are done. Items of `failed` are left to workers until the backfill begins anew.
  void FinishEmbedding(const EmbedTurn& turn, std::vector<AsideItem> failed);
  // Counts embeddings of older items that `generation` wrote.
  void NoteEmbedded(uint32_t generation, uint64_t items) {
    if (order_.embedding_generation() == generation) embedded_.fetch_add(items);
  }
  // For items_per_second, about once a second.
  void NoteProgress(absl::Time now) { order_.NoteProgress(now); }
  // Sets what Status shows: why the encoder embeds nothing, or OK. `stop`: until the next start, which then tries
  // everything again. Nothing changes once the turn is over.
  void NoteEmbedding(const EmbedTurn& turn, absl::Status error, bool stop = false);
  // Whether an error stopped embedding, and no start came since.
  bool EmbeddingStopped() const { return embedding_.stopped(); }
  // Counts starts, ends of pauses and activations of other generations.
  uint64_t starts() const { return order_.starts(); }

 private:
  Collection* const collection_;
  absl::Mutex scan_mu_;  // taken before the mutexes of the parts
  std::atomic<uint64_t> embedded_{0};
  BackfillLeases leases_;
  BackfillEmbedding embedding_;
  BackfillOrder order_;  // ends first: its thread uses the others
};

}  // namespace lightcone::server
