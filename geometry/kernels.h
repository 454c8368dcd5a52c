// float32 kernels, one source for every instruction set (Highway), chosen once at run time.
// Units: rows are `stride` floats apart, stride >= dimension; row pointers need no alignment; any dimension >= 1.
// Threads: all functions are safe concurrently, but ForceKernelTarget.
// Results may differ in the last bits between machines; BoundQuery::ScoreErrorMax holds on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "geometry/bound_query.h"
#include "geometry/query_batch.h"
#include "geometry/row_factors.h"

namespace lightcone {

// scores[i] = score of row i, i < n; higher is nearer. factors[i] belongs to row i.
void ScoreRows(const BoundQuery& query, const float* rows, std::size_t stride, const RowFactors* factors, std::size_t n,
               float* scores);

// scores[i] = score of row ids[i], with factors[ids[i]]; rows ahead are prefetched. For graph search and lists. Of
// Euclid's space by differences: where rows lie far from the origin, ScoreRows loses what tells them apart.
void ScoreRowsGathered(const BoundQuery& query, const float* rows, std::size_t stride, const RowFactors* factors,
                       const std::uint32_t* ids, std::size_t n, float* scores);

// scores[q * score_stride + i] = score of row i for query q; rows are read once for many queries.
// REQUIRES: rows have the queries' dimension; score_stride >= n.
void ScoreRowsBatch(const QueryBatch& queries, const float* rows, std::size_t stride, const RowFactors* factors,
                    std::size_t n, float* scores, std::size_t score_stride);

struct RowHit {
  std::uint32_t row = 0;
  float score = 0;
};

// The scores that are not below floors[q] alone (so NaN is one), rows ascending: the hits of query q are the first
// found[q] from hits + q * n on. floors[q] may be -inf.
void ScanRowsBatch(const QueryBatch& queries, const float* rows, std::size_t stride, const RowFactors* factors,
                   std::size_t n, const float* floors, RowHit* hits, std::size_t* found);

// <x, y> over n floats; 0 for n = 0.
float Dot(const float* x, const float* y, std::size_t n);

// |x - y|^2 over n floats, by their differences, so that a large common part of x and y costs no digits.
float SquaredGap(const float* x, const float* y, std::size_t n);

// distances[i] = geodesic from the point with space part `x_space` to the one with space part rows[i], on the
// hyperboloid of curvature -`curvature` = -k^2, by the half chord in float32. Relative error about
// 2e-7 (1 + (cosh(k r) - cosh(k s))^2 / (2 sinh(k d / 2))^2) with d the distance and r, s those of the points from the
// origin: down to near duplicates where r, s <= 1.2, and worse the farther out two points of different r lie on one ray
// (r = 5, s = 5.5, k = 1: 5e-4 of their 0.5).
void GeodesicRows(double curvature, const float* x_space, std::size_t dimension, const float* rows, std::size_t stride,
                  std::size_t n, float* distances);

// The instruction sets this machine can run and this program contains, best first, and their names ("AVX2").
std::vector<std::int64_t> KernelTargets();
std::string_view KernelTargetName(std::int64_t target);

// The one in use.
std::int64_t ActiveKernelTarget();

// Makes every kernel run on `target`, one of KernelTargets(); 0 returns to the best. For tests, never while kernels
// run.
void ForceKernelTarget(std::int64_t target);

}  // namespace lightcone
