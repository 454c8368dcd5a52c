// Who holds which items of a lazy backfill: the leases of workers, and the turns of the server's own encoder. Workers
// get what searches returned lately, then the order, worst first, then what other workers gave back, in rotation.
// All of it is in memory: a restart ends every lease.
// Threads: every method is safe from any thread. "REQUIRES: scan" means that the caller holds
// `scan_mu`, because the method reads the order or moves the cursor. No method does I/O under `mu_`.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/api/types.h"
#include "server/engine/backfill/order_rows.h"
#include "server/engine/backfill/touched_items.h"
#include "server/engine/collection/collection.h"

namespace lightcone::server {

class BackfillLeases {
 public:
  struct HeldItem {
    std::string order_key;  // Empty: a search returned the item, so its place in the order is unknown.
    uint64_t internal_id = 0;
  };
  using HeldItems = std::vector<HeldItem>;

  // Both must outlive this.
  BackfillLeases(Collection* collection, absl::Mutex* scan_mu) : collection_(collection), scan_mu_(scan_mu) {}

  // Ends all leases and starts at the order's begin. REQUIRES: scan.
  void Clear();
  // A new order is in the store, and holds every item that waits. Leases stay. REQUIRES: scan.
  void BeginOrder();
  // Lets searches bring back items that workers could not embed.
  void ForgetTried();
  void RecordReturnedItems(const SearchAnswer& answer, uint32_t generation) { touched_.Note(answer, generation); }
  uint64_t CountHeldItems() const;

  // Ends leases that ran out, whose items go back to their places, and the one that a worker finished, whose items go
  // behind all others. REQUIRES: scan.
  void TakeBack(const std::string& finished_token, uint32_t generation);
  // FAILED_PRECONDITION where the lease has ended.
  absl::Status Renew(const std::string& token, absl::Duration timeout);
  // Fills `answer` with a lease, unless nothing is free. Returns whether the order is through but for items that
  // workers gave back. `done` gets the internal ids of rows that left the order. REQUIRES: scan.
  absl::StatusOr<bool> LeaseWorst(const LeaseCall& call, LeaseAnswer* answer, std::vector<uint64_t>* done);
  // Whether older generations embedded items after the order was made that nobody holds or gave back. Embedded items
  // of open leases count as held, so the answer may come late. REQUIRES: scan, and the order is through.
  bool HasUnordered(const BackfillRecord& record) const;

  // The rest is for turns of the server's own encoder. Whether the item was free, and is held from now on. `touched`: a
  // search returned the item, so its place in the order is unknown.
  bool Hold(uint64_t internal_id, bool touched);
  std::string OpenTurn(HeldItems items);      // Returns the token.
  bool ExtendTurn(const std::string& token);  // false: the turn has ended
  bool HasTurn(const std::string& token) const;
  // What workers passed by meanwhile goes behind all others. false: the turn had ended. REQUIRES: scan.
  bool FinishTurn(const std::string& token);
  void ReleaseItems(const HeldItems& items);  // Of a turn that failed before OpenTurn. REQUIRES: scan.
  bool HasNoLease() const;

 private:
  using Clock = std::chrono::steady_clock;  // Nobody sets this clock, so a lease has the length that it was given.
  struct OpenLease {
    Clock::time_point ends;
    HeldItems items;
    uint64_t order = 0;  // value of orders_ at its start
    bool own = false;    // a turn of the server's encoder, which nobody else ends or renews
  };

  std::string Open(OpenLease lease, const char* kind);
  // Up to `count` keys that nobody holds: worst first, then those that workers gave back. Sets `through` at the end.
  absl::StatusOr<std::vector<std::string>> NextKeys(size_t count, uint32_t generation, bool* through);
  absl::Status LeaseRest(size_t wanted, LeaseAnswer* answer, HeldItems* held, std::vector<uint64_t>* done,
                         bool* through);
  // Leases rows up to `wanted` items; returns those whose items do not wait any more.
  std::vector<OrderRow> LeaseRows(std::vector<OrderRow> rows, size_t wanted, LeaseAnswer* answer, HeldItems* held);
  // Items of a worker's lease that a search returned and that still wait. The next search does not bring them again.
  std::vector<uint64_t> ReadUndoneTouched(const OpenLease& lease, uint32_t generation) const;
  // Holds an item of the order. If it is held already, its holder keeps the key that the scan goes past.
  bool HoldOrdered(uint64_t internal_id, const std::string& order_key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the key that the scan went past, or empty: the scan is still to meet it.
  std::string Release(const HeldItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReleaseInto(const HeldItems& items, std::set<std::string>* keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Collection* const collection_;
  absl::Mutex* const scan_mu_;
  TouchedItems touched_;
  const uint32_t nonce_ = std::random_device()();  // tells this run's tokens from those of earlier runs

  mutable absl::Mutex mu_;                                        // a leaf lock
  std::map<std::string, OpenLease> leases_ ABSL_GUARDED_BY(mu_);  // by token
  absl::flat_hash_set<uint64_t> held_ ABSL_GUARDED_BY(mu_);       // internal ids of leases_
  // For held items that searches returned: the key at which the scan met the item since; empty: not yet.
  absl::flat_hash_map<uint64_t, std::string> passed_ ABSL_GUARDED_BY(mu_);
  // Internal ids that workers did not embed. A search would otherwise bring one that crashes them for ever.
  absl::flat_hash_set<uint64_t> tried_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<uint64_t> behind_ ABSL_GUARDED_BY(mu_);  // tried items whose keys the scan moves to retry_
  std::string cursor_ ABSL_GUARDED_BY(mu_);                    // first key that the scan has not met
  std::set<std::string> pending_ ABSL_GUARDED_BY(mu_);         // keys before the cursor that wait for a lease
  std::set<std::string> retry_ ABSL_GUARDED_BY(mu_);           // keys that workers gave back: behind all others
  std::string retry_cursor_ ABSL_GUARDED_BY(mu_);              // last key leased from retry_, which rotates
  uint64_t orders_ ABSL_GUARDED_BY(mu_) = 0;                   // number of orders made
  uint64_t next_token_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace lightcone::server
