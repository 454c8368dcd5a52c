// Bodies of the code kernels for any instruction set, compiled once per set by code_kernels.cc. Include nowhere else.
#if defined(LIGHTCONE_GEOMETRY_CODE_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIGHTCONE_GEOMETRY_CODE_KERNELS_INL_H_
#undef LIGHTCONE_GEOMETRY_CODE_KERNELS_INL_H_
#else
#define LIGHTCONE_GEOMETRY_CODE_KERNELS_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/prefetch.h"
#include "geometry/code_kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lightcone {
namespace HWY_NAMESPACE {

constexpr size_t kCodePrefetchBytes = 16 * 1024;  // ahead of a scan
constexpr size_t kCodeGatherPrefetchMax = 1024;   // bytes of one row worth prefetching

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE uint32_t CodeDot(const CodeQuery& query, const uint8_t* row) {
  uint32_t sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(query.dimension()); ++i) {
    sum += static_cast<uint32_t>(int32_t{query.whole()[i]} * int32_t{row[i]});
  }
  return sum;
}
#else
namespace hn = hwy::HWY_NAMESPACE;

// Sum of A (c + 128), modulo 2^32. Rows are padded to a multiple of 16 codes, and A has zeros there.
HWY_INLINE uint32_t CodeDot(const CodeQuery& query, const uint8_t* HWY_RESTRICT row) {
  const hn::CappedTag<int16_t, 16> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const size_t lanes = hn::Lanes(d16);
  const size_t n = CodeFactorsAt(CodeKind::kInt8, query.dimension());
  auto even = hn::Zero(d32), odd = even;
  for (size_t i = 0; i < n; i += lanes) {
    const auto codes = hn::PromoteTo(d16, hn::LoadU(d8, row + i));
    even = hn::ReorderWidenMulAccumulate(d32, codes, hn::LoadU(d16, query.whole() + i), even, odd);
  }
  return static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d32, hn::Add(even, odd))));
}
#endif

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE int32_t DotCodes(const uint8_t* x, const uint8_t* y, int dimension) {
  int32_t sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(dimension); ++i) sum += (int32_t{x[i]} - 128) * (int32_t{y[i]} - 128);
  return sum;
}
#else
// The padding holds 128, which is the code 0.
HWY_INLINE int32_t DotCodes(const uint8_t* HWY_RESTRICT x, const uint8_t* HWY_RESTRICT y, int dimension) {
  const hn::CappedTag<int16_t, 16> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const size_t lanes = hn::Lanes(d16);
  const size_t n = CodeFactorsAt(CodeKind::kInt8, dimension);
  const auto zero = hn::Set(d16, 128);
  auto even = hn::Zero(d32), odd = even;
  for (size_t i = 0; i < n; i += lanes) {
    const auto c = hn::Sub(hn::PromoteTo(d16, hn::LoadU(d8, x + i)), zero);
    const auto d = hn::Sub(hn::PromoteTo(d16, hn::LoadU(d8, y + i)), zero);
    even = hn::ReorderWidenMulAccumulate(d32, c, d, even, odd);
  }
  return hn::GetLane(hn::SumOfLanes(d32, hn::Add(even, odd)));
}
#endif

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE float FloatOfHalf(const uint8_t* row, size_t i) {
  const hwy::HWY_NAMESPACE::Sisd<float> d;
  hwy::float16_t half;
  std::memcpy(&half, row + i * sizeof(half), sizeof(half));
  return GetLane(PromoteTo(d, hwy::HWY_NAMESPACE::Set(hwy::HWY_NAMESPACE::Sisd<hwy::float16_t>(), half)));
}

// By four partial sums, as the error bound takes for granted.
template <typename At>
HWY_INLINE float HalfSum(const uint8_t* row, int dimension, const At& at) {
  float sums[4] = {};
  for (size_t i = 0; i < static_cast<size_t>(dimension); ++i) sums[i % 4] += at(i) * FloatOfHalf(row, i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
HWY_INLINE float HalfDot(const float* a, const uint8_t* row, int dimension) {
  return HalfSum(row, dimension, [a](size_t i) { return a[i]; });
}
HWY_INLINE float DotHalves(const uint8_t* x, const uint8_t* y, int dimension) {
  return HalfSum(y, dimension, [x](size_t i) { return FloatOfHalf(x, i); });
}
#else
using HalfLanes = hn::CappedTag<float, 16>;
using HalfCodes = hn::Rebind<hwy::float16_t, HalfLanes>;

HWY_INLINE hn::Vec<HalfLanes> LoadHalves(const uint8_t* row, size_t i) {
  return hn::PromoteTo(HalfLanes(), hn::LoadU(HalfCodes(), reinterpret_cast<const hwy::float16_t*>(row) + i));
}

// Sum of at(i) c over the codes of a row. Rows are padded with zeros to a multiple of 16 codes.
template <typename At>
HWY_INLINE float HalfSum(const uint8_t* HWY_RESTRICT row, int dimension, const At& at) {
  const HalfLanes d;
  const size_t lanes = hn::Lanes(d);
  const size_t n = CodeFactorsAt(CodeKind::kHalf, dimension) / sizeof(uint16_t);
  auto even = hn::Zero(d), odd = even;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::MulAdd(at(i), LoadHalves(row, i), even);
    odd = hn::MulAdd(at(i + lanes), LoadHalves(row, i + lanes), odd);
  }
  if (i < n) even = hn::MulAdd(at(i), LoadHalves(row, i), even);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}
HWY_INLINE float HalfDot(const float* HWY_RESTRICT a, const uint8_t* row, int dimension) {
  return HalfSum(row, dimension, [a](size_t i) HWY_ATTR { return hn::LoadU(HalfLanes(), a + i); });
}
HWY_INLINE float DotHalves(const uint8_t* x, const uint8_t* y, int dimension) {
  return HalfSum(y, dimension, [x](size_t i) HWY_ATTR { return LoadHalves(x, i); });
}
#endif

struct Int8Rows {
  static constexpr CodeKind kKind = CodeKind::kInt8;
  // In steps of the row.
  static HWY_INLINE float Dot(const CodeQuery& query, const uint8_t* row) {
    return query.sigma() * static_cast<float>(static_cast<int32_t>(CodeDot(query, row) - query.offset()));
  }
  static HWY_INLINE float Dot(const uint8_t* x, const uint8_t* y, int dimension) {
    return static_cast<float>(DotCodes(x, y, dimension));
  }
};

struct HalfRows {
  static constexpr CodeKind kKind = CodeKind::kHalf;
  static HWY_INLINE float Dot(const CodeQuery& query, const uint8_t* row) {
    return HalfDot(query.a(), row, query.dimension());
  }
  static HWY_INLINE float Dot(const uint8_t* x, const uint8_t* y, int dimension) { return DotHalves(x, y, dimension); }
};

HWY_INLINE float CodeScore(const CodeQuery& query, float dot, const CodeFactors& factors) {
  return factors.step * dot - query.b() * factors.bias - query.c();
}

// CodeQuery::ErrorOf, and a little more than its own rounding.
HWY_INLINE float CodeError(const CodeQuery& query, float score, float row_error) {
  if (!query.euclidean()) return query.slack() + query.a_norm() * row_error;
  const float square = query.slack() - score;
  return query.slack() + row_error * (2.00001f * std::sqrt(square > 0 ? square : 0.0f) + 1.00001f * row_error);
}

HWY_INLINE CodeFactors LoadCodeFactors(const uint8_t* row, size_t at) {
  CodeFactors factors;
  std::memcpy(&factors, row + at, sizeof(factors));
  return factors;
}

template <typename Rows>
HWY_INLINE size_t Scan(const CodeQuery& query, const uint8_t* HWY_RESTRICT rows, size_t stride, size_t n, float floor,
                       CodeHit* HWY_RESTRICT hits) {
  const size_t at = CodeFactorsAt(Rows::kKind, query.dimension());
  size_t found = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* row = rows + i * stride;
    Prefetch<kSecondLevel>(row + kCodePrefetchBytes, stride);
    const CodeFactors factors = LoadCodeFactors(row, at);
    const float score = CodeScore(query, Rows::Dot(query, row), factors);
    const float error = CodeError(query, score, factors.error);
    if (score + error >= floor) hits[found++] = {static_cast<uint32_t>(i), score, error};
  }
  return found;
}

size_t ScanCodesImpl(const CodeQuery& query, const uint8_t* HWY_RESTRICT rows, size_t stride, size_t n, float floor,
                     CodeHit* HWY_RESTRICT hits) {
  return query.kind() == CodeKind::kInt8 ? Scan<Int8Rows>(query, rows, stride, n, floor, hits)
                                         : Scan<HalfRows>(query, rows, stride, n, floor, hits);
}

// Asks for rows four ahead of the one at work.
class CodePrefetch {
 public:
  CodePrefetch(const uint8_t* rows, size_t stride, const uint32_t* ids, size_t n)
      : rows_(rows), stride_(stride), ids_(ids), n_(n) {
    for (size_t i = 0; i < n && i < kAhead; ++i) Row(i);
  }
  void At(size_t i) const {
    if (i + kAhead < n_) Row(i + kAhead);
  }

 private:
  static constexpr size_t kAhead = 4;
  void Row(size_t i) const {
    const uint8_t* row = rows_ + size_t{ids_[i]} * stride_;
    const size_t bytes = stride_ < kCodeGatherPrefetchMax ? stride_ : kCodeGatherPrefetchMax;
    Prefetch(row, bytes);
    if (bytes < stride_) Prefetch(row + stride_ - sizeof(CodeFactors), sizeof(CodeFactors));
  }

  const uint8_t* const rows_;
  const size_t stride_;
  const uint32_t* const ids_;
  const size_t n_;
};

template <typename Rows>
HWY_INLINE void ScoreGathered(const CodeQuery& query, const uint8_t* HWY_RESTRICT rows, size_t stride,
                              const uint32_t* HWY_RESTRICT ids, size_t n, float* HWY_RESTRICT scores) {
  const size_t at = CodeFactorsAt(Rows::kKind, query.dimension());
  const CodePrefetch prefetch(rows, stride, ids, n);
  for (size_t i = 0; i < n; ++i) {
    prefetch.At(i);
    const uint8_t* row = rows + size_t{ids[i]} * stride;
    scores[i] = CodeScore(query, Rows::Dot(query, row), LoadCodeFactors(row, at));
  }
}

void ScoreCodesGatheredImpl(const CodeQuery& query, const uint8_t* rows, size_t stride, const uint32_t* ids, size_t n,
                            float* scores) {
  if (query.kind() == CodeKind::kInt8) return ScoreGathered<Int8Rows>(query, rows, stride, ids, n, scores);
  ScoreGathered<HalfRows>(query, rows, stride, ids, n, scores);
}

template <typename Rows>
HWY_INLINE void DotGathered(const uint8_t* x, const uint8_t* HWY_RESTRICT rows, size_t stride, int dimension,
                            const uint32_t* HWY_RESTRICT ids, size_t n, float* HWY_RESTRICT dots) {
  const size_t at = CodeFactorsAt(Rows::kKind, dimension);
  const float step = LoadCodeFactors(x, at).step;
  const CodePrefetch prefetch(rows, stride, ids, n);
  for (size_t i = 0; i < n; ++i) {
    prefetch.At(i);
    const uint8_t* row = rows + size_t{ids[i]} * stride;
    dots[i] = step * LoadCodeFactors(row, at).step * Rows::Dot(x, row, dimension);
  }
}

void DotCodesGatheredImpl(CodeKind kind, const uint8_t* x, const uint8_t* rows, size_t stride, int dimension,
                          const uint32_t* ids, size_t n, float* dots) {
  if (kind == CodeKind::kInt8) return DotGathered<Int8Rows>(x, rows, stride, dimension, ids, n, dots);
  DotGathered<HalfRows>(x, rows, stride, dimension, ids, n, dots);
}

// r of a row, one number or a vector of them. scale * z is exact in double: both are float32.
struct Residual {
  double At(size_t i) const { return scale * double{z[i]} - Centre(i); }
  double Centre(size_t i) const { return centre == nullptr ? 0.0 : double{centre[i]}; }
#if HWY_TARGET != HWY_SCALAR && HWY_HAVE_FLOAT64
  using Doubles = hn::ScalableTag<double>;
  using Floats = hn::Rebind<float, Doubles>;
  HWY_INLINE hn::Vec<Doubles> VectorAt(size_t i) const {
    const auto scaled = hn::Mul(hn::Set(Doubles(), scale), hn::PromoteTo(Doubles(), hn::LoadU(Floats(), z + i)));
    return centre == nullptr ? scaled : hn::Sub(scaled, CentreVector(i));
  }
  HWY_INLINE hn::Vec<Doubles> CentreVector(size_t i) const {
    return centre == nullptr ? hn::Zero(Doubles()) : hn::PromoteTo(Doubles(), hn::LoadU(Floats(), centre + i));
  }
#endif

  double scale;
  const float* HWY_RESTRICT z;
  const float* HWY_RESTRICT centre;
};

RowCoding EncodeInt8Impl(double scale, const float* z, const float* centre, size_t n, uint8_t* HWY_RESTRICT out) {
  const Residual r{scale, z, centre};
  RowCoding coding;
  double largest = 0;
  size_t vectors = 0;  // numbers that go in whole vectors
#if HWY_TARGET != HWY_SCALAR && HWY_HAVE_FLOAT64
  const Residual::Doubles d;
  const hn::Rebind<int32_t, Residual::Doubles> d32;
  const hn::Rebind<uint8_t, Residual::Doubles> d8;
  const size_t lanes = hn::Lanes(d);
  vectors = n / lanes * lanes;
  auto most = hn::Zero(d);
  for (size_t i = 0; i < vectors; i += lanes) most = hn::Max(most, hn::Abs(r.VectorAt(i)));
  largest = hn::GetLane(hn::MaxOfLanes(d, most));
#endif
  for (size_t i = vectors; i < n; ++i) largest = std::fmax(largest, std::fabs(r.At(i)));
  coding.step = static_cast<float>(largest / kInt8CodeMax);
  const double step = coding.step, steps = step > 0 ? 1 / step : 0;  // the inverse of a float32 is finite in double
#if HWY_TARGET != HWY_SCALAR && HWY_HAVE_FLOAT64
  auto lost = hn::Zero(d), kept = lost, along = lost;
  for (size_t i = 0; i < vectors; i += lanes) {
    const auto exact = r.VectorAt(i);
    const auto bounded =
        hn::Min(hn::Max(hn::Mul(exact, hn::Set(d, steps)), hn::Set(d, -kInt8CodeMax)), hn::Set(d, kInt8CodeMax));
    const auto code = hn::Round(bounded);
    hn::StoreU(hn::DemoteTo(d8, hn::Add(hn::DemoteTo(d32, code), hn::Set(d32, 128))), d8, out + i);
    const auto value = hn::Mul(code, hn::Set(d, step));
    const auto gone = hn::Sub(exact, value);
    lost = hn::MulAdd(gone, gone, lost);
    kept = hn::MulAdd(value, value, kept);
    along = hn::MulAdd(r.CentreVector(i), value, along);
  }
  coding.lost = hn::GetLane(hn::SumOfLanes(d, lost));
  coding.kept = hn::GetLane(hn::SumOfLanes(d, kept));
  coding.along = hn::GetLane(hn::SumOfLanes(d, along));
#endif
  for (size_t i = vectors; i < n; ++i) {
    const double exact = r.At(i);
    const double code = std::nearbyint(std::fmin(std::fmax(exact * steps, -kInt8CodeMax), kInt8CodeMax));
    out[i] = static_cast<uint8_t>(static_cast<int>(code) + 128);
    const double value = step * code;
    coding.lost += (exact - value) * (exact - value);
    coding.kept += value * value;
    coding.along += r.Centre(i) * value;
  }
  return coding;
}

}  // namespace HWY_NAMESPACE
}  // namespace lightcone
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
