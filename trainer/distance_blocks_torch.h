// Distances of two sets of embeddings in blocks of rows, for evaluations: the whole matrix never exists. Only .cc files
// of trainer/ include this. Threads: all functions are safe; the caller holds a torch::NoGradGuard.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/evaluate.h"

namespace lightcone {

// How errors name the two sides.
struct SideNames {
  const char *first = "queries", *second = "gallery";
};

// INVALID_ARGUMENT: sizes that do not fit, a value that is not finite, an unknown metric; `same_items` needs equal
// sizes.
absl::Status CheckComparison(const RetrievalSpace& space, const LabelledEmbeddings& first,
                             const LabelledEmbeddings& second, bool same_items, const SideNames& names = {});

// Rows whose inner products order as the metric's distances do: order = offset_i + offset_j - 2 <x_i, y_j>, up to a
// monotone map. For lorentz the time coordinate is the last column, negated on one side.
struct PreparedSide {
  torch::Tensor rows;     // [n, columns] float64
  torch::Tensor offsets;  // [n] float64; not defined but for euclidean
};
PreparedSide PrepareSide(const RetrievalSpace& space, const LabelledEmbeddings& side, bool negate_time);

// Rows of a block whose distances to `columns` items take at most 64 MiB (1 .. 256).
int64_t BlockRows(int64_t columns);

// Ordering values (smaller is nearer) of rows [begin, begin + n) of `a` to all of `b`: [n, size of b], contiguous.
torch::Tensor OrderBlock(const PreparedSide& a, const PreparedSide& b, int64_t begin, int64_t n);

// The same of n pairs: row a_rows[i] of `a` with row b_rows[i] of `b`, [n]. The rows are int64 tensors.
torch::Tensor OrderPairs(const PreparedSide& a, const PreparedSide& b, const torch::Tensor& a_rows,
                         const torch::Tensor& b_rows);

// Distances from ordering values: geodesic length, 1 - cosine, Euclidean, or minus the inner product.
torch::Tensor DistancesOf(const RetrievalSpace& space, const torch::Tensor& order);

}  // namespace lightcone
