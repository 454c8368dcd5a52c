// The order in which a lazy backfill embeds items anew: an estimate, for each item of an older generation, of how badly
// the newer model finds it (docs/concepts/uncertainty.md). Threads: pure functions over a collection in service.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "models/failure_head_file.h"
#include "server/engine/collection/collection.h"

namespace lightcone::server {

struct OrderedItem {
  uint64_t internal_id = 0;
  float uncertainty = 0;  // in [0, 1]; larger is worse
};

struct OrderCall {
  Collection* collection = nullptr;
  uint32_t generation = 0;                // generation whose items are ordered
  uint32_t view_generation = 0;           // Only items that its view serves by `generation` are ordered.
  const FailureHeadFile* head = nullptr;  // has the generation's dimension; null: the neighbourhood alone decides
  std::function<bool()> cancelled;
  std::atomic<int64_t>* done = nullptr;  // counts ordered items; may be null
};

// With a head: the probability that the newer model retrieves the item wrongly. Without one: the entropy of its 64
// nearest (tau = 0.2 d1) over log 64. Inner products are no distances, so every item gets 0.
// A search of the collection finds the neighbours among the same generation's items. d1 comes from up to 16,384 items,
// evenly spaced. The result ascends by internal id. CANCELLED once `cancelled` returns true; DATA_LOSS and other errors
// of the store. Memory: about 150 bytes an item.
absl::StatusOr<std::vector<OrderedItem>> EstimateOrder(const OrderCall& call);

}  // namespace lightcone::server
