// The kernels for machines (or emulators) without any vector unit we know: Highway's baseline under older compilers,
// with one lane. Same contracts as kernels-inl.h, four partial sums each. Include only from kernels.cc.
#if defined(LIGHTCONE_GEOMETRY_KERNELS_SCALAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIGHTCONE_GEOMETRY_KERNELS_SCALAR_INL_H_
#undef LIGHTCONE_GEOMETRY_KERNELS_SCALAR_INL_H_
#else
#define LIGHTCONE_GEOMETRY_KERNELS_SCALAR_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "geometry/bound_query.h"
#include "geometry/kernels.h"
#include "geometry/query_batch.h"
#include "geometry/row_factors.h"
#include "hwy/highway.h"

#if HWY_TARGET == HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lightcone {
namespace HWY_NAMESPACE {

// Sum of term(i), i < n.
template <typename Term>
HWY_INLINE float SumByFour(size_t n, Term term) {
  float sums[4] = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += term(i + j);
  }
  for (; i < n; ++i) sums[i % 4] += term(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

float DotImpl(const float* x, const float* y, size_t n) {
  return SumByFour(n, [&](size_t i) { return x[i] * y[i]; });
}

float SquaredGapImpl(const float* x, const float* y, size_t n) {
  return SumByFour(n, [&](size_t i) { return (x[i] - y[i]) * (x[i] - y[i]); });
}

HWY_INLINE float ScoreOne(const BoundQuery& query, const float* row, RowFactors factors) {
  const float dot = DotImpl(query.a(), row, static_cast<size_t>(query.dimension()));
  return factors.scale * dot - query.b() * factors.bias - query.c();
}

void ScoreRowsImpl(const BoundQuery& query, const float* rows, size_t stride, const RowFactors* factors, size_t n,
                   float* scores) {
  for (size_t i = 0; i < n; ++i) scores[i] = ScoreOne(query, rows + i * stride, factors[i]);
}

void ScoreRowsGatheredImpl(const BoundQuery& query, const float* rows, size_t stride, const RowFactors* factors,
                           const uint32_t* ids, size_t n, float* scores) {
  if (query.item_space().metric == Metric::kEuclidean) {
    const size_t dim = static_cast<size_t>(query.dimension());
    for (size_t i = 0; i < n; ++i) {
      const float* const row = rows + size_t{ids[i]} * stride;
      scores[i] = -SumByFour(dim, [&](size_t j) {
        const float gap = query.a()[j] / 2 - row[j];
        return gap * gap;
      });
    }
    return;
  }
  for (size_t i = 0; i < n; ++i) scores[i] = ScoreOne(query, rows + size_t{ids[i]} * stride, factors[ids[i]]);
}

void ScoreRowsBatchImpl(const QueryBatch& batch, const float* rows, size_t stride, const RowFactors* factors, size_t n,
                        float* scores, size_t score_stride) {
  for (size_t q = 0; q < batch.size(); ++q) {
    ScoreRowsImpl(batch[q], rows, stride, factors, n, scores + q * score_stride);
  }
}

void ScanRowsBatchImpl(const QueryBatch& batch, const float* rows, size_t stride, const RowFactors* factors, size_t n,
                       const float* floors, RowHit* hits, size_t* found) {
  for (size_t q = 0; q < batch.size(); ++q) {
    found[q] = 0;
    for (size_t i = 0; i < n; ++i) {
      const float score = ScoreOne(batch[q], rows + i * stride, factors[i]);
      if (!(score < floors[q])) hits[q * n + found[q]++] = {static_cast<uint32_t>(i), score};
    }
  }
}

void GeodesicRowsImpl(float curvature, const float* x, size_t dim, const float* rows, size_t stride, size_t n,
                      float* distances) {
  const float x_time = std::sqrt(1.0f / curvature + DotImpl(x, x, dim));
  for (size_t i = 0; i < n; ++i) {
    const float* y = rows + i * stride;
    const float gaps = SumByFour(dim, [&](size_t j) { return (x[j] - y[j]) * (x[j] - y[j]); });
    const float difference = SumByFour(dim, [&](size_t j) { return (x[j] - y[j]) * (x[j] + y[j]); });
    const float dt = difference / (x_time + std::sqrt(1.0f / curvature + DotImpl(y, y, dim)));
    const float u = std::max(0.0f, curvature / 2.0f * (gaps - dt * dt));
    distances[i] = 2.0f / std::sqrt(curvature) * std::asinh(std::sqrt(u / 2.0f));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lightcone
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET == HWY_SCALAR

#endif  // include guard of this target
