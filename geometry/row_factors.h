// Two floats kept beside every stored row, so that one kernel scores all metrics:
//   score(q, z) = scale * <a, z> - b * bias - c          (a, b, c belong to the bound query, see bound_query.h)
#pragma once

#include <span>

#include "geometry/metric.h"

namespace lightcone {

//   metric         scale                                    bias
//   Lorentz        min(1, zeta/|z|) * sinh(kr)/(kr)         h_time = cosh(kr)/k, r = min(|z|, zeta): scale*z = h_space
//   cosine         1/|z|                                    0
//   inner product  1                                        |z| (its b is 0: kept for the error bound only)
//   Euclidean      1                                        |z|^2
struct RowFactors {
  float scale = 0;
  float bias = 0;
  bool operator==(const RowFactors&) const = default;
};
static_assert(sizeof(RowFactors) == 2 * sizeof(float), "kernels read arrays of factors as interleaved floats");

// The factors of a vector of `space`. Computed in float64 and rounded once. REQUIRES: CheckVector(space, z) is OK.
RowFactors FactorsOf(const Space& space, std::span<const float> z);

}  // namespace lightcone
