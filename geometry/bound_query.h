// A query bound once to the space of the rows it is compared with: cheap scores for scanning, exact distances for
// ranking, and the bound that ties the two together.
//
// How an exact top k is certified: scan with the float32 kernels (kernels.h), take the k-th best score s_k, compute the
// exact distance of every row whose score is at least s_k - 2 * ScoreErrorMax(largest bias of the rows), order by it.
// No other row can belong to the exact top k.
//
// Threads: const methods are safe concurrently. Owns all it needs.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/aligned.h"
#include "geometry/metric.h"
#include "geometry/row_factors.h"

namespace lightcone {

class BoundQuery {
 public:
  // Binds `z_q`, a vector of `query_space` (before its clip), to rows of `item_space`. The clip radii may differ: each
  // side is clipped by its own (mixed generations rank by the plain geodesic).
  // kFailedPrecondition naming both sides if metric, dimension or (Lorentz) curvature differ;
  // kInvalidArgument if `z_q` is no vector of `query_space` (field 'vector').
  static absl::StatusOr<BoundQuery> Make(const Space& query_space, const Space& item_space, std::span<const float> z_q);

  // The exact distance to the stored row `z_g` (float32 values, float64 arithmetic; Lorentz by the half chord of
  // tangent vectors: no cancellation, identical vectors are at 0). Symmetric. REQUIRES: z_g is a vector of
  // item_space.
  double Distance(std::span<const float> z_g) const;

  // The distance that belongs to a score; for Lorentz noise below about 5e-4, so rank by Distance.
  double DistanceFromScore(float score) const;

  // The exact score of a row at distance `d`: strictly decreasing. For a range search: rows within `d` have kernel
  // scores of at least ScoreOfDistance(d) - ScoreErrorMax(largest bias). +inf where no row can be that near.
  double ScoreOfDistance(double d) const;

  // |float32 kernel score - exact score| is at most this for every row of item_space whose bias factor is at most
  // `bias_max`. Rigorous for all kernels of kernels.h on every target (standard model of rounding, any order of at
  // least four partial sums). Inner product and Euclid need a true `bias_max`; for Lorentz ScoreErrorMax() knows it.
  double ScoreErrorMax(float bias_max) const;

  // The same for any row of item_space. REQUIRES: metric is Lorentz or cosine, where the space itself bounds the bias.
  double ScoreErrorMax() const { return ScoreErrorMax(bias_limit_); }

  // score = scale * <a, z> - b * bias - c. `a` has dimension() floats, zero padded to a multiple of 16.
  const float* a() const { return a_.data(); }
  float b() const { return b_; }
  float c() const { return c_; }
  int dimension() const { return item_space_.dimension; }
  const Space& item_space() const { return item_space_; }

 private:
  BoundQuery(const Space& query_space, const Space& item_space, std::span<const float> z_q);

  Space item_space_;
  AlignedFloats a_;
  float b_ = 0;
  float c_ = 0;
  float bias_limit_ = 0;
  double a_norm_ = 0;            // |a| of the float32 values, rounded up a little
  double k_ = 1;                 // sqrt(K)
  double radius_ = 0;            // clipped norm of the query, Lorentz only
  std::vector<double> z_exact_;  // the query's direction (Lorentz, cosine) or itself
};

}  // namespace lightcone
