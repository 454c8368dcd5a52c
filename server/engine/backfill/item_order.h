// The order in which a lazy backfill embeds items anew: an estimate, for every item of an older generation, of how
// badly the newer model will find it (docs/concepts/uncertainty.md). Threads: pure functions over a collection in
// service.
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
  uint32_t generation = 0;                // whose items are ordered
  uint32_t view_generation = 0;           // those that a view of this generation serves by `generation`
  const FailureHeadFile* head = nullptr;  // of the generation's dimension; null: by the neighbourhood alone
  std::function<bool()> cancelled;
  std::atomic<int64_t>* done = nullptr;  // counts items; may be null
};

// With a head: the probability that the newer model retrieves the item wrongly. Without: the entropy of its 64 nearest
// (tau = .2 d1) over log 64. Inner products are no distances: 0 for all. Neighbours are what a search of the collection
// finds among the same generation's items; d1 comes from up to 16,384 items, evenly spaced. Ascending by internal id.
// CANCELLED once `cancelled` says so; DATA_LOSS and other errors of the store. Memory: about 150 bytes an item.
absl::StatusOr<std::vector<OrderedItem>> EstimateOrder(const OrderCall& call);

}  // namespace lightcone::server
