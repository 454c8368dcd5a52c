// Kernel bodies, compiled once per instruction set by kernels.cc. Include nowhere else.
// Sums run in at least four partial sums (a vector has four lanes or more); BoundQuery::ScoreErrorMax relies on it.
#if defined(LIGHTCONE_GEOMETRY_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIGHTCONE_GEOMETRY_KERNELS_INL_H_
#undef LIGHTCONE_GEOMETRY_KERNELS_INL_H_
#else
#define LIGHTCONE_GEOMETRY_KERNELS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/prefetch.h"
#include "geometry/bound_query.h"
#include "geometry/row_factors.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lightcone {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR  // which has one lane: see kernels_scalar-inl.h
namespace hn = hwy::HWY_NAMESPACE;

using Lanes1 = hn::ScalableTag<float>;
using V = hn::Vec<Lanes1>;
using Four = hn::FixedTag<float, 4>;
using V4 = hn::Vec<Four>;

constexpr size_t kPrefetchBytes = 32 * 1024;  // prefetch distance of a sequential scan, beyond the first-level cache
constexpr size_t kGatherPrefetchMax = 2048;   // bytes of one row worth prefetching; the hardware follows a longer one

// The last, partial vector of a row of `dim` floats is loaded from dim - N, overlapping what was already counted; this
// zeroes that overlap. One side of a product is enough, because rows are finite.
HWY_INLINE V LoadTail(Lanes1 d, const float* x, size_t dim) {
  const size_t lanes = hn::Lanes(d);
  return hn::IfThenZeroElse(hn::FirstN(d, lanes - dim % lanes), hn::LoadU(d, x + dim - lanes));
}

// {sum of v0, sum of v1, sum of v2, sum of v3}: transposes inside 128-bit blocks, then adds the blocks.
HWY_INLINE V4 SumEach(Lanes1 d, V v0, V v1, V v2, V v3) {
  const V t0 = hn::Add(hn::InterleaveLower(d, v0, v2), hn::InterleaveUpper(d, v0, v2));
  const V t1 = hn::Add(hn::InterleaveLower(d, v1, v3), hn::InterleaveUpper(d, v1, v3));
  const V blocks = hn::Add(hn::InterleaveLower(d, t0, t1), hn::InterleaveUpper(d, t0, t1));
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(blocks, d, lanes);
  V4 sum = hn::Load(Four(), lanes);
  for (size_t i = 4; i < hn::Lanes(d); i += 4) sum = hn::Add(sum, hn::Load(Four(), lanes + i));
  return sum;
}

HWY_INLINE float SumOf(Lanes1 d, V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

HWY_INLINE float SmallDot(const float* x, const float* y, size_t dim) {
  float sum = 0;
  for (size_t i = 0; i < dim; ++i) sum += x[i] * y[i];
  return sum;
}

// <x, y>, four vectors at once.
HWY_INLINE float OneDot(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, size_t dim) {
  const Lanes1 d;
  const size_t lanes = hn::Lanes(d);
  if (dim < lanes) return SmallDot(x, y, dim);
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= dim; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, x + i + lanes), hn::LoadU(d, y + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, x + i + 2 * lanes), hn::LoadU(d, y + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, x + i + 3 * lanes), hn::LoadU(d, y + i + 3 * lanes), s3);
  }
  for (; i + lanes <= dim; i += lanes) s0 = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), s0);
  if (i < dim) s1 = hn::MulAdd(LoadTail(d, x, dim), hn::LoadU(d, y + dim - lanes), s1);
  return SumOf(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

// <a, r>, not yet added up, in two sums.
HWY_INLINE V RowDot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT r, size_t dim) {
  const Lanes1 d;
  const size_t lanes = hn::Lanes(d);
  V s = hn::Zero(d), t = s;
  size_t i = 0;
  for (; i + 2 * lanes <= dim; i += 2 * lanes) {
    s = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, r + i), s);
    t = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, r + i + lanes), t);
  }
  if (i + lanes <= dim) {
    s = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, r + i), s);
    i += lanes;
  }
  if (i < dim) t = hn::MulAdd(LoadTail(d, a, dim), hn::LoadU(d, r + dim - lanes), t);
  return hn::Add(s, t);
}

// |s a - r|^2, not yet added up, in two sums. s a is exact: s is 1 or 1/2.
HWY_INLINE V RowGap(float s, const float* HWY_RESTRICT a, const float* HWY_RESTRICT r, size_t dim) {
  const Lanes1 d;
  const size_t lanes = hn::Lanes(d);
  const V scale = hn::Set(d, s);
  V sum = hn::Zero(d), other = sum;
  size_t i = 0;
  for (; i + 2 * lanes <= dim; i += 2 * lanes) {
    const V x = hn::MulSub(scale, hn::LoadU(d, a + i), hn::LoadU(d, r + i));
    const V y = hn::MulSub(scale, hn::LoadU(d, a + i + lanes), hn::LoadU(d, r + i + lanes));
    sum = hn::MulAdd(x, x, sum);
    other = hn::MulAdd(y, y, other);
  }
  if (i + lanes <= dim) {
    const V x = hn::MulSub(scale, hn::LoadU(d, a + i), hn::LoadU(d, r + i));
    sum = hn::MulAdd(x, x, sum);
    i += lanes;
  }
  if (i < dim) {
    const V y = hn::MulSub(scale, LoadTail(d, a, dim), LoadTail(d, r, dim));
    other = hn::MulAdd(y, y, other);
  }
  return hn::Add(sum, other);
}

HWY_INLINE float OneGap(float s, const float* HWY_RESTRICT a, const float* HWY_RESTRICT r, size_t dim) {
  const Lanes1 d;
  if (dim >= hn::Lanes(d)) return SumOf(d, RowGap(s, a, r, dim));
  float sum = 0;
  for (size_t i = 0; i < dim; ++i) {
    const float gap = s * a[i] - r[i];
    sum += gap * gap;
  }
  return sum;
}

// <a, r0> .. <a, r3>, row after row: memory is read in one stream, which processors' own prefetchers follow best (on a
// Zen, without ours, four streams side by side reached two thirds of it); rows overlap in flight all the same.
HWY_INLINE V4 FourDots(const float* HWY_RESTRICT a, const float* HWY_RESTRICT r0, const float* HWY_RESTRICT r1,
                       const float* HWY_RESTRICT r2, const float* HWY_RESTRICT r3, size_t dim) {
  return SumEach(Lanes1(), RowDot(a, r0, dim), RowDot(a, r1, dim), RowDot(a, r2, dim), RowDot(a, r3, dim));
}

HWY_INLINE float FinishOne(const BoundQuery& query, float dot, RowFactors factors) {
  return factors.scale * dot - query.b() * factors.bias - query.c();
}

HWY_INLINE V4 FinishFour(const BoundQuery& query, V4 dots, V4 scale, V4 bias) {
  const Four f;
  const V4 scaled = hn::NegMulAdd(hn::Set(f, query.b()), bias, hn::Mul(scale, dots));
  return hn::Sub(scaled, hn::Set(f, query.c()));
}

void ScoreRowsImpl(const BoundQuery& query, const float* HWY_RESTRICT rows, size_t stride,
                   const RowFactors* HWY_RESTRICT factors, size_t n, float* HWY_RESTRICT scores) {
  const Lanes1 d;
  const size_t dim = static_cast<size_t>(query.dimension());
  size_t i = 0;
  if (dim >= hn::Lanes(d)) {
    const Four f;
    const size_t block_bytes = 4 * stride * sizeof(float);
    for (; i + 4 <= n; i += 4) {
      const float* r = rows + i * stride;
      Prefetch<kSecondLevel>(r + kPrefetchBytes / sizeof(float), block_bytes);
      const V4 dots = FourDots(query.a(), r, r + stride, r + 2 * stride, r + 3 * stride, dim);
      V4 scale, bias;
      hn::LoadInterleaved2(f, reinterpret_cast<const float*>(factors + i), scale, bias);
      hn::StoreU(FinishFour(query, dots, scale, bias), f, scores + i);
    }
  }
  for (; i < n; ++i) scores[i] = FinishOne(query, OneDot(query.a(), rows + i * stride, dim), factors[i]);
}

void ScoreRowsGatheredImpl(const BoundQuery& query, const float* HWY_RESTRICT rows, size_t stride,
                           const RowFactors* HWY_RESTRICT factors, const uint32_t* HWY_RESTRICT ids, size_t n,
                           float* HWY_RESTRICT scores) {
  const Lanes1 d;
  const size_t dim = static_cast<size_t>(query.dimension());
  const size_t row_bytes = std::min(dim * sizeof(float), kGatherPrefetchMax);
  const auto row = [&](size_t i) { return rows + static_cast<size_t>(ids[i]) * stride; };
  const auto prefetch = [&](size_t begin) {
    for (size_t i = begin; i < std::min(begin + 4, n); ++i) {
      Prefetch(row(i), row_bytes);
      Prefetch(factors + ids[i], sizeof(RowFactors));
    }
  };
  prefetch(0);
  size_t i = 0;
  if (query.item_space().metric == Metric::kEuclidean) {
    constexpr float kHalf = 0.5f;  // a = 2 q
    for (; dim >= hn::Lanes(d) && i + 4 <= n; i += 4) {
      prefetch(i + 4);
      const V4 gaps = SumEach(d, RowGap(kHalf, query.a(), row(i), dim), RowGap(kHalf, query.a(), row(i + 1), dim),
                              RowGap(kHalf, query.a(), row(i + 2), dim), RowGap(kHalf, query.a(), row(i + 3), dim));
      hn::StoreU(hn::Neg(gaps), Four(), scores + i);
    }
    for (; i < n; ++i) scores[i] = -OneGap(kHalf, query.a(), row(i), dim);
    return;
  }
  if (dim >= hn::Lanes(d)) {
    const Four f;
    for (; i + 4 <= n; i += 4) {
      prefetch(i + 4);
      const V4 dots = FourDots(query.a(), row(i), row(i + 1), row(i + 2), row(i + 3), dim);
      HWY_ALIGN float scale[4];
      HWY_ALIGN float bias[4];
      for (size_t j = 0; j < 4; ++j) {
        scale[j] = factors[ids[i + j]].scale;
        bias[j] = factors[ids[i + j]].bias;
      }
      hn::StoreU(FinishFour(query, dots, hn::Load(f, scale), hn::Load(f, bias)), f, scores + i);
    }
  }
  for (; i < n; ++i) scores[i] = FinishOne(query, OneDot(query.a(), row(i), dim), factors[ids[i]]);
}

float DotImpl(const float* x, const float* y, size_t n) { return OneDot(x, y, n); }

float SquaredGapImpl(const float* x, const float* y, size_t n) { return OneGap(1.0f, x, y, n); }

// Sums that the half chord needs: |x-y|^2, <x-y, x+y>, |y|^2.
struct ChordSums {
  float gap_squared = 0, difference = 0, y_squared = 0;
};

HWY_INLINE void ChordStep(V x, V y, V& gaps, V& differences, V& squares) {
  const V gap = hn::Sub(x, y);
  gaps = hn::MulAdd(gap, gap, gaps);
  differences = hn::MulAdd(gap, hn::Add(x, y), differences);
  squares = hn::MulAdd(y, y, squares);
}

HWY_INLINE ChordSums SumsOfChord(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, size_t dim) {
  const Lanes1 d;
  const size_t lanes = hn::Lanes(d);
  ChordSums out;
  if (dim < lanes) {
    for (size_t i = 0; i < dim; ++i) {
      const float gap = x[i] - y[i];
      out.gap_squared += gap * gap;
      out.difference += gap * (x[i] + y[i]);
      out.y_squared += y[i] * y[i];
    }
    return out;
  }
  V gaps = hn::Zero(d), differences = gaps, squares = gaps;
  size_t i = 0;
  for (; i + lanes <= dim; i += lanes) ChordStep(hn::LoadU(d, x + i), hn::LoadU(d, y + i), gaps, differences, squares);
  if (i < dim) ChordStep(LoadTail(d, x, dim), LoadTail(d, y, dim), gaps, differences, squares);
  return {SumOf(d, gaps), SumOf(d, differences), SumOf(d, squares)};
}

void GeodesicRowsImpl(float curvature, const float* x, size_t dim, const float* rows, size_t stride, size_t n,
                      float* distances) {
  const float k = std::sqrt(curvature);
  const float x_time = std::sqrt(1.0f / curvature + OneDot(x, x, dim));
  for (size_t i = 0; i < n; ++i) {
    const ChordSums sums = SumsOfChord(x, rows + i * stride, dim);
    const float dt = sums.difference / (x_time + std::sqrt(1.0f / curvature + sums.y_squared));
    const float u = std::max(0.0f, curvature / 2.0f * (sums.gap_squared - dt * dt));
    distances[i] = 2.0f / k * std::asinh(std::sqrt(u / 2.0f));
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

int64_t TargetImpl() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace lightcone
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
