// Distances of two sets of embeddings in blocks of rows, without the whole matrix, for evaluations. Only .cc files of
// trainer/ include this. Threads: all functions are safe; the caller holds a torch::NoGradGuard.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/evaluate.h"

namespace lightcone {

// The names of the two sides in errors.
struct SideNames {
  const char *first = "queries", *second = "gallery";
};

// INVALID_ARGUMENT: sizes that do not fit, a value that is not finite, an unknown metric, unequal sizes for
// `same_items`.
absl::Status CheckComparison(const RetrievalSpace& space, const LabelledEmbeddings& first,
                             const LabelledEmbeddings& second, bool same_items, const SideNames& names = {});

// Rows whose inner products have the order of the metric's distances: order = offset_i + offset_j - 2 <x_i, y_j>, up to
// a monotone map. For lorentz the last column is the time coordinate, negated on one side.
struct PreparedSide {
  torch::Tensor rows;     // coordinates, [n, columns] float64
  torch::Tensor offsets;  // offsets, [n] float64; euclidean only
};
PreparedSide PrepareSide(const RetrievalSpace& space, const LabelledEmbeddings& side, bool negate_time);

// Number of rows of a block, 1 .. 256, whose distances to `columns` items take at most 64 MiB.
int64_t BlockRows(int64_t columns);

// Ordering values (smaller is nearer) of rows [begin, begin + n) of `a` to all of `b`: [n, size of b], contiguous.
torch::Tensor OrderBlock(const PreparedSide& a, const PreparedSide& b, int64_t begin, int64_t n);

// Ordering values of n pairs: row a_rows[i] of `a` with row b_rows[i] of `b`, [n]. The rows are int64 tensors.
torch::Tensor OrderPairs(const PreparedSide& a, const PreparedSide& b, const torch::Tensor& a_rows,
                         const torch::Tensor& b_rows);

// Distances from ordering values: geodesic length, 1 - cosine, Euclidean, or minus the inner product.
torch::Tensor DistancesOf(const RetrievalSpace& space, const torch::Tensor& order);

}  // namespace lightcone
