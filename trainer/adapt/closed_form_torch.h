// Closed-form maps from pairs, in float64 (docs/internals/adapters.md, A fit). Rows may be float32: sums are float64
// over blocks, without a float64 copy of all rows. Only .cc files of trainer/ and tests include this. Threads: pure
// functions.
#pragma once

#include <torch/torch.h>

namespace lightcone {

struct LinearMap {
  torch::Tensor w;    // matrix, [out, in] float64
  torch::Tensor c;    // offset, [out] float64
  double lambda = 0;  // chosen ridge, relative to the mean square of the centred inputs
};

// argmin sum |W x + c - y|^2 + lambda |W|^2 for x [n, in], y [n, out], n >= 10, in random order. A fit to the first
// four fifths of the rows chooses the lambda with the least error over the last fifth: 1e-8 .. 1 times the mean
// eigenvalue of the inputs' covariance. The result is a fit to all rows.
LinearMap FitRidge(const torch::Tensor& x, const torch::Tensor& y);

// Q [out, in] float64 with orthonormal rows (out <= in) or columns that maximises tr(Q sum x y^T), by the singular
// value decomposition of sum y x^T (Schoenemann 1966); with `scaled` times the s that minimises sum |s Q x - y|^2.
torch::Tensor FitProcrustes(const torch::Tensor& x, const torch::Tensor& y, bool scaled);

// U [out, r], V [in, r] float64 with U V^T the best approximation of `w` [out, in] over the distribution of `x`
// (reduced-rank regression: the singular value decomposition of w S^(1/2), S the covariance of x). The factors share
// the singular values.
struct LowRank {
  torch::Tensor u, v;
};
LowRank FactorLowRank(const torch::Tensor& w, const torch::Tensor& x, int64_t rank);

}  // namespace lightcone
