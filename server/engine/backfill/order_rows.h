// The rows of a backfill's order (table kOrder), and what the store says of their items now.
// Threads: free functions, safe from any thread. They read the store: call none of them under a lock that Status needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/engine/backfill/touched_items.h"
#include "server/engine/collection/collection.h"

namespace lightcone::server {

// Whether `generation` still has to embed the item: neither it nor a newer one, before a rollback, has done so.
bool WaitsFor(const ItemRecord& record, uint32_t generation);

struct OrderRow {
  std::string key;
  uint64_t internal_id = 0;
  float uncertainty = 0;
  bool waits = false;  // false: embedded, replaced or deleted, so the row can go
  ItemId id;
  ItemRecord record;
};

// Up to `count` keys of the order from `begin` on, of generations older than `generation`.
absl::StatusOr<std::vector<std::string>> ScanOrder(const Collection& collection, const std::string& begin,
                                                   uint32_t generation, size_t count);
absl::StatusOr<std::vector<OrderRow>> ReadOrder(const Collection& collection,
                                                const std::vector<std::string>& order_keys, uint32_t generation);
// A key that stays behind costs the next start one look, so the removal need not be durable.
absl::Status RemoveFromOrder(const Collection& collection, const std::vector<OrderRow>& rows);

struct TouchedItem {
  ItemId id;
  ItemRecord record;
};
// Takes up to `wanted` items that wait for `generation` and that `hold` accepts out of `from`. Looks at a bounded
// number. Skips what cannot be read: the order names it when it comes to it.
std::vector<TouchedItem> TakeTouched(const Collection& collection, TouchedItems* from, size_t wanted,
                                     uint32_t generation, absl::FunctionRef<bool(const ItemRecord&)> hold);

}  // namespace lightcone::server
