// Exact nearest neighbours of a set of embeddings, for studies. No torch here. Threads: pure functions; they use the
// tensor library's threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/evaluate.h"

namespace lightcone {

// The k nearest of each of n items, nearest first.
struct NeighbourLists {
  size_t k = 0;
  std::vector<int32_t> ids;       // neighbours, n x k
  std::vector<double> distances;  // distances by the space's metric, n x k

  size_t size() const { return k == 0 ? 0 : ids.size() / k; }
  std::span<const int32_t> IdsOf(size_t item) const { return {ids.data() + item * k, k}; }
  // The `length` nearest, or as many as there are.
  std::span<const int32_t> FirstOf(size_t item, size_t length) const { return IdsOf(item).first(std::min(length, k)); }
  std::span<const double> DistancesOf(size_t item) const { return {distances.data() + item * k, k}; }
};

// One side of a search for neighbours, and its name in errors.
struct NamedSide {
  const char* name;
  LabelledEmbeddings embeddings;
};

// The at most k_max nearest of `among` to each of `items`. With `same_items` row i of both is one image, which is no
// neighbour of itself. INVALID_ARGUMENT as EvaluateRetrieval, and without any neighbour. Memory: 12 bytes a neighbour,
// and a block of distances.
absl::StatusOr<NeighbourLists> NearestNeighbours(const RetrievalSpace& space, const NamedSide& items,
                                                 const NamedSide& among, bool same_items, int64_t k_max);

}  // namespace lightcone
