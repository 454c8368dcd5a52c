// The server's own part in a lazy backfill: items whose input is stored, for its encoder, in the order of the leases
// but with a cursor of its own, so that workers find everything that the encoder leaves.
// Threads: every method is safe from any thread. One caller at a time takes a turn and finishes it. "REQUIRES: scan"
// means that the caller holds `scan_mu`. No method does I/O under `mu_`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/api/types.h"
#include "server/engine/backfill/leases.h"
#include "server/engine/backfill/touched_items.h"
#include "server/engine/collection/collection.h"

namespace lightcone::server {

// Items for the server's own encoder.
struct EmbedTurn {
  struct Item {
    ItemId id;
    uint64_t sequence = 0;
    uint64_t internal_id = 0;
  };
  std::string token;  // empty: nothing to embed now
  uint32_t generation = 0;
  std::vector<Item> items;
};

class BackfillEmbedding {
 public:
  BackfillEmbedding(Collection* collection, absl::Mutex* scan_mu, BackfillLeases* leases)
      : collection_(collection), scan_mu_(scan_mu), leases_(leases) {}

  // Forgets what was set aside and why embedding failed, and starts at the order's begin.
  void Clear();
  // Starts at the order's begin, not before `next_pass`. What was set aside stays so.
  void BeginPasses(absl::Time next_pass = absl::InfinitePast());
  // After a pause: forgets the error. If embedding had stopped, tries everything again.
  void Retry();
  void RecordReturnedItems(const SearchAnswer& answer, uint32_t generation) { touched_.Note(answer, generation); }

  // Whether a turn may find items. false between two passes, and once embedding has stopped.
  bool IsReady(absl::Time now) const;
  // Up to `wanted` of the worst items whose input is stored and that nobody holds. `left`: items that wait at all.
  // Sets `unordered` if a whole pass found nothing, but items wait that it did not meet. Errors of the store.
  // REQUIRES: scan.
  absl::StatusOr<EmbedTurn> TakeTurn(size_t wanted, absl::Duration between_passes, uint32_t generation, uint64_t left,
                                     bool* unordered);
  // Sets `failed` aside for workers, unless the turn had ended. REQUIRES: scan.
  void FinishTurn(const EmbedTurn& turn, std::vector<AsideItem> failed);

  void SetError(absl::Status error, bool stop);
  bool stopped() const;
  void ForgetAside(const std::vector<uint64_t>& internal_ids);
  void AddTo(BackfillStatus* status) const;

 private:
  absl::Status TakeRest(size_t wanted, absl::Duration between_passes, uint64_t left, EmbedTurn* turn,
                        BackfillLeases::HeldItems* held, bool* unordered);
  // Takes rows up to `wanted` items; returns those whose items do not wait any more.
  std::vector<OrderRow> TakeRows(std::vector<OrderRow> rows, size_t wanted, EmbedTurn* turn,
                                 BackfillLeases::HeldItems* held);
  bool CanEmbed(const ItemRecord& record) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns whether items wait that the pass did not meet.
  bool EndPass(absl::Duration between_passes, uint64_t left);

  Collection* const collection_;
  absl::Mutex* const scan_mu_;
  BackfillLeases* const leases_;
  TouchedItems touched_;

  mutable absl::Mutex mu_;                                               // taken before the mutex of leases_
  std::string cursor_ ABSL_GUARDED_BY(mu_);                              // empty: the order's begin
  uint64_t passed_by_ ABSL_GUARDED_BY(mu_) = 0;                          // items of this pass without a usable input
  uint64_t taken_ ABSL_GUARDED_BY(mu_) = 0;                              // items of this pass that turns took
  absl::Time next_pass_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();     // earliest start of the next pass
  absl::flat_hash_map<uint64_t, AsideItem> aside_ ABSL_GUARDED_BY(mu_);  // by internal id
  absl::Status error_ ABSL_GUARDED_BY(mu_);                              // why the encoder embeds nothing, or OK
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;                            // until the next start
};

}  // namespace lightcone::server
