// Where items stand among their nearest neighbours, in numbers that need no label (research/notes/uncertainty.md). No
// torch here.
// Threads: pure functions; they use all cores.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/uncertainty/neighbours.h"
#include "trainer/uncertainty/scores.h"

namespace lightcone {

struct Neighbourhood {
  NeighbourLists lists;
  double d1 = 0;  // the unit of distances: median distance of an item to the nearest that is no copy of it
};

// Errors as NearestNeighbours; also INVALID_ARGUMENT when all neighbours are copies of their items.
absl::StatusOr<Neighbourhood> NeighbourhoodOf(const RetrievalSpace& space, const NamedSide& items,
                                              const NamedSide& among, bool same_items, int64_t k_max);

// Entropy over the `k` nearest (or as many as there are) at tau = `share` d1 (geometry/uncertainty.h).
Scores NeighbourEntropies(const Neighbourhood& near, size_t k, double share);

// Distance to the nearest.
Scores NearestDistances(const Neighbourhood& near);

// stats/failure_head.h
Scores Steepness(const Neighbourhood& near);

// Of an item's `length` nearest (or as many as there are), how many have it among theirs. Neighbours of items in their
// own gallery only.
Scores Returned(const Neighbourhood& near, size_t length);

}  // namespace lightcone
