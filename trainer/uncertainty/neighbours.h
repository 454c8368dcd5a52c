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

// For each of n items its k nearest, nearest first.
struct NeighbourLists {
  size_t k = 0;
  std::vector<int32_t> ids;       // n x k
  std::vector<double> distances;  // n x k, by the space's metric

  size_t size() const { return k == 0 ? 0 : ids.size() / k; }
  std::span<const int32_t> IdsOf(size_t item) const { return {ids.data() + item * k, k}; }
  // The `length` nearest of them, or as many as there are.
  std::span<const int32_t> FirstOf(size_t item, size_t length) const { return IdsOf(item).first(std::min(length, k)); }
  std::span<const double> DistancesOf(size_t item) const { return {distances.data() + item * k, k}; }
};

// One side of a search for neighbours, by the name that errors give it.
struct NamedSide {
  const char* name;
  LabelledEmbeddings embeddings;
};

// The min(k_max, number there is) nearest of `among` to each of `items`; `same_items`: row i of both is the same image
// and is left out. INVALID_ARGUMENT as EvaluateRetrieval, and when nothing is left to be a neighbour. Memory: 12 bytes
// a neighbour, and a block of distances.
absl::StatusOr<NeighbourLists> NearestNeighbours(const RetrievalSpace& space, const NamedSide& items,
                                                 const NamedSide& among, bool same_items, int64_t k_max);

}  // namespace lightcone
