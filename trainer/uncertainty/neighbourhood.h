// Label-free measures of items among their nearest neighbours (research/notes/uncertainty.md). No torch here. Threads:
// pure functions; they use all cores.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/uncertainty/neighbours.h"
#include "trainer/uncertainty/scores.h"

namespace lightcone {

struct Neighbourhood {
  NeighbourLists lists;
  double d1 = 0;  // unit of distances: median distance of an item to its nearest non-copy
};

// Errors as NearestNeighbours; also INVALID_ARGUMENT when all neighbours are copies of their items.
absl::StatusOr<Neighbourhood> NeighbourhoodOf(const RetrievalSpace& space, const NamedSide& items,
                                              const NamedSide& among, bool same_items, int64_t k_max);

// Steepness of stats/failure_head.h for each item.
Scores Steepness(const Neighbourhood& near);

// Number of an item's `length` nearest that have the item among theirs. `near` must hold neighbours in the items' own
// gallery.
Scores Returned(const Neighbourhood& near, size_t length);

}  // namespace lightcone
