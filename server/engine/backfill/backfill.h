// The lazy backfill of one collection: orders its items in a thread of its own and leases them, those that searches
// found lately before all others, and then worst first. The order and what was started are in the store; leases, and
// what searches found, are in memory. An item that is embedded anew, deleted or replaced
// leaves the order when a lease meets it. Threads: every method is safe from any thread; Halt, Begin and Resume
// come from one caller at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "models/failure_head_file.h"
#include "server/engine/api/types.h"
#include "server/engine/backfill/pace.h"
#include "server/engine/backfill/touched_items.h"
#include "server/engine/collection/collection.h"
#include "server/engine/collection/meta.h"

namespace lightcone::server {

struct BackfillCounts {
  uint64_t done = 0, left = 0;
};
// Items whose newest embedding that `generation` serves is its own, and those that it can still embed. Neither are
// those that a newer one embedded, before a rollback, and it did not: their older embedding is what is served.
BackfillCounts CountsOf(const ProgressRecord& progress, uint32_t generation);

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

class Backfill {
 public:
  explicit Backfill(Collection* collection) : collection_(collection) {}  // must outlive it
  ~Backfill() { Halt(); }

  // Ends the ordering that is under way, if any, and starts none until Begin or Resume.
  void Halt();
  // Takes over what the store holds already: orders, or goes on with an order that is there. REQUIRES: halted.
  void Begin(BackfillRecord record, std::optional<FailureHeadFile> head);
  // Goes on with an ordering that Halt ended, or the activation of another generation.
  void Resume();
  // Ends leasing, or goes on with it: order and leases stay; an ordering under way ends and begins again. The store's
  // record changes with it, by `write`, and so does `also` in the same batch. NOT_FOUND before a start; errors of the
  // store. `pace`, if there is one, replaces how the server itself embeds.
  absl::Status SetPaused(bool paused, absl::FunctionRef<OperatorWrite(const WriteBatch&)> write, WriteBatch also = {},
                         const StartBackfillCall* pace = nullptr);

  std::optional<BackfillRecord> record() const;
  BackfillStatus Status() const;
  absl::StatusOr<LeaseAnswer> Lease(const LeaseCall& call);
  // What a search of an application found: the server's encoder and workers take it before all others. Fails never.
  void NoteFound(const SearchAnswer& answer);

  // Whether TakeEmbeddable is worth a call.
  bool HasEmbeddable(absl::Time now) const;
  // Up to `wanted` of the worst items whose input is stored and that nobody has leased, for one caller at a time, which
  // gives each turn back. Errors of the store.
  // `between_passes`: how long what was leased or failed is left alone once all others were taken.
  absl::StatusOr<EmbedTurn> TakeEmbeddable(size_t wanted, absl::Duration between_passes);
  // Whether its items are still to be embedded: no pause, rollback, start or end of the turn came in between. If so
  // they stay the caller's for a while longer, however long they take.
  bool StillWanted(const EmbedTurn& turn);
  // What is embedded by now is through; what `failed` is left to workers elsewhere, until the backfill begins anew.
  void FinishEmbedding(const EmbedTurn& turn, std::vector<AsideItem> failed);
  // Embeddings of items that are there already were written by `generation`.
  void NoteEmbedded(uint32_t generation, uint64_t items) {
    if (embeds_.load() == generation) embedded_.fetch_add(items);
  }
  // For items_per_second, about once a second.
  void NoteProgress(absl::Time now);
  // What Status shows from now on: why the server's own encoder embeds nothing, or OK. `stop`: until the next start,
  // which then tries again all that was set aside. Nothing where the turn is over.
  void NoteEmbedding(const EmbedTurn& turn, absl::Status error, bool stop = false);
  // Whether it said `stop`, and no start came since.
  bool EmbeddingStopped() const;
  // Another number once it is started, goes on after a pause, or finds another generation active.
  uint64_t starts() const;

 private:
  struct Leased {
    std::string order_key;  // empty: of one that was taken because a search found it, wherever it stands in the order
    uint64_t internal_id = 0;
  };
  using LeaseClock = std::chrono::steady_clock;  // which nobody sets: a lease is as long as it was to be
  struct OpenLease {
    LeaseClock::time_point ends;
    std::vector<Leased> items;
    uint64_t order = 0;  // as orders_ was
    bool own = false;    // a turn of the server's encoder: nobody else ends or renews it
  };

  // Unless it is under way, halted, paused, or another generation is active.
  void StartOrdering() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Wanted(const BackfillRecord& record) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Order(BackfillRecord record, const FailureHeadFile* head);  // the thread
  absl::Status OrderOnce(BackfillRecord* record, const FailureHeadFile* head);
  absl::Status OrderItems(const BackfillRecord& record, const FailureHeadFile* head);
  absl::Status StoreRecord(const BackfillRecord& record) const;
  // Takes over what calls change while the thread orders: a pause, the pace.
  void FollowPace(BackfillRecord* record) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool Current(const BackfillRecord& record) const;
  BackfillState StateNow(uint64_t left) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  // FAILED_PRECONDITION where it has ended.
  absl::Status Renew(const std::string& token, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What expired goes back to its place, what a worker could not embed behind everything else.
  void TakeBack(const std::string& finished_token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Up to `count` keys of the order that nobody holds, worst first, then what workers gave back, in turns. Sets
  // `through` once the order is.
  absl::StatusOr<std::vector<std::string>> NextKeys(size_t count, bool* through) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Leases those that still wait to be embedded anew, up to `wanted` in all; the keys of items that do not wait any
  // more go into `gone`, the rest into returned_.
  absl::Status LeaseKeys(const std::vector<std::string>& keys, size_t wanted, LeaseAnswer* answer, OpenLease* lease,
                         WriteBatch* gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Fills both with up to `wanted` items; whether the order is through, but for what was given back. Looks at a bounded
  // number of keys, so there may be fewer items before that. After an error what was taken from the order is in them or
  // in returned_.
  absl::StatusOr<bool> LeaseWorst(size_t wanted, LeaseAnswer* answer, OpenLease* lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether older generations have embedded items since the order was made that nobody holds or gave back. Items that
  // are done but not yet given back count as held, so the answer may come late. REQUIRES: the order is through.
  bool HasUnordered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether it still waits to be embedded anew: neither done nor, before a rollback, embedded by a newer generation.
  bool Waits(const ItemRecord& record) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  struct Found {
    ItemId id;
    ItemRecord record;
    uint32_t generation = 0;  // that embedded it
  };
  // Up to `wanted` of those that searches found and that wait to be embedded, that nobody holds and `skip` does not
  // pass over; `lease` holds them from then on. Looks at a bounded number.
  std::vector<Found> TakeFound(TouchedItems* from, size_t wanted, absl::FunctionRef<bool(const ItemRecord&)> skip,
                               OpenLease* lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Of a worker's lease that ends: what was found and is not embedded now is not leased for that reason again before
  // the next start. `finished`: and its place in the order is behind all others.
  void NoteTried(const OpenLease& lease, bool finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Holds an item of the order, or notes its key where it is held already; whether it was free.
  bool Hold(uint64_t internal_id, const std::string& order_key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends that; the key by which the leases' scan went past it, or empty: that is still to come to it.
  std::string Release(const Leased& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveBack(const OpenLease& lease, std::set<std::string>* keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TakeKeys(const std::vector<std::string>& order_keys, size_t wanted, EmbedTurn* turn, OpenLease* lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndPass(absl::Time now, absl::Duration between_passes, uint64_t left) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BeginPasses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // of TakeEmbeddable, at the start of the order
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);       // leases, cursors, what was set aside

  Collection* const collection_;
  TouchedItems for_workers_, for_encoder_;  // what searches found, for each in its own time
  std::atomic<uint32_t> embeds_{0};         // the generation of record_, without a lock; 0: paused or none
  std::atomic<uint64_t> embedded_{0};
  const uint32_t nonce_ = std::random_device()();  // tokens of another run of the server are nobody's
  std::atomic<bool> stop_{false};
  std::atomic<bool> paused_{false};  // as record_ says, for the thread
  std::atomic<int64_t> ordered_{0};
  std::thread orderer_;

  mutable absl::Mutex mu_;
  bool halted_ ABSL_GUARDED_BY(mu_) = true;     // orderer_ is then the caller's of Halt, else it changes under mu_
  bool ordering_ ABSL_GUARDED_BY(mu_) = false;  // orderer_ runs
  std::optional<BackfillRecord> record_ ABSL_GUARDED_BY(mu_);
  std::optional<FailureHeadFile> head_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);                       // of the last ordering
  uint64_t orders_ ABSL_GUARDED_BY(mu_) = 0;                      // that were made
  std::string cursor_ ABSL_GUARDED_BY(mu_);                       // the scan of the order goes on here
  std::set<std::string> returned_ ABSL_GUARDED_BY(mu_);           // keys before the cursor whose leases ended
  std::set<std::string> retry_ ABSL_GUARDED_BY(mu_);              // keys that workers gave back: after all others
  std::string retry_cursor_ ABSL_GUARDED_BY(mu_);                 // the last of them that was leased: they take turns
  std::map<std::string, OpenLease> leases_ ABSL_GUARDED_BY(mu_);  // by token
  absl::flat_hash_set<uint64_t> leased_ ABSL_GUARDED_BY(mu_);     // internal ids in leases_
  // Of those among them that searches found: the key by which the leases' scan met them since; empty: none yet.
  absl::flat_hash_map<uint64_t, std::string> passed_ ABSL_GUARDED_BY(mu_);
  // Internal ids of NoteTried: what a worker cannot embed, or crashes by, would come again with every search.
  absl::flat_hash_set<uint64_t> tried_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<uint64_t> behind_ ABSL_GUARDED_BY(mu_);  // and whose keys go to retry_ when the scan meets them
  uint64_t next_token_ ABSL_GUARDED_BY(mu_) = 1;
  std::string embed_cursor_ ABSL_GUARDED_BY(mu_);                     // of TakeEmbeddable; empty: the start
  uint64_t passed_by_ ABSL_GUARDED_BY(mu_) = 0;                       // items of this pass that nobody can embed here
  uint64_t taken_ ABSL_GUARDED_BY(mu_) = 0;                           // and those that were taken
  absl::Time next_pass_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();  // of it
  absl::flat_hash_map<uint64_t, AsideItem> aside_ ABSL_GUARDED_BY(mu_);  // by internal id
  absl::Status embed_error_ ABSL_GUARDED_BY(mu_);                        // of NoteEmbedding
  bool embed_stopped_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t starts_ ABSL_GUARDED_BY(mu_) = 0;
  Growth growth_ ABSL_GUARDED_BY(mu_);  // of the items that are done
};

}  // namespace lightcone::server
