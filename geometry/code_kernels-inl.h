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
  const size_t n = CodeFactorsAt(query.dimension());
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
  const size_t n = CodeFactorsAt(dimension);
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

HWY_INLINE float CodeScore(const CodeQuery& query, uint32_t dot, const CodeFactors& factors) {
  const float signed_dot = static_cast<float>(static_cast<int32_t>(dot - query.offset()));
  return factors.step * (query.sigma() * signed_dot) - query.b() * factors.bias - query.c();
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

size_t ScanCodesImpl(const CodeQuery& query, const uint8_t* HWY_RESTRICT rows, size_t stride, size_t n, float floor,
                     CodeHit* HWY_RESTRICT hits) {
  const size_t at = CodeFactorsAt(query.dimension());
  size_t found = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* row = rows + i * stride;
    for (size_t offset = 0; offset < stride; offset += 64) {
      __builtin_prefetch(row + kCodePrefetchBytes + offset, 0, 2);
    }
    const CodeFactors factors = LoadCodeFactors(row, at);
    const float score = CodeScore(query, CodeDot(query, row), factors);
    const float error = CodeError(query, score, factors.error);
    if (score + error >= floor) hits[found++] = {static_cast<uint32_t>(i), score, error};
  }
  return found;
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
    for (size_t offset = 0; offset < bytes; offset += 64) __builtin_prefetch(row + offset, 0, 3);
    __builtin_prefetch(row + stride_ - 1, 0, 3);
  }

  const uint8_t* const rows_;
  const size_t stride_;
  const uint32_t* const ids_;
  const size_t n_;
};

void ScoreCodesGatheredImpl(const CodeQuery& query, const uint8_t* HWY_RESTRICT rows, size_t stride,
                            const uint32_t* HWY_RESTRICT ids, size_t n, float* HWY_RESTRICT scores) {
  const size_t at = CodeFactorsAt(query.dimension());
  const CodePrefetch prefetch(rows, stride, ids, n);
  for (size_t i = 0; i < n; ++i) {
    prefetch.At(i);
    const uint8_t* row = rows + size_t{ids[i]} * stride;
    scores[i] = CodeScore(query, CodeDot(query, row), LoadCodeFactors(row, at));
  }
}

void DotCodesGatheredImpl(const uint8_t* x, const uint8_t* HWY_RESTRICT rows, size_t stride, int dimension,
                          const uint32_t* HWY_RESTRICT ids, size_t n, float* HWY_RESTRICT dots) {
  const size_t at = CodeFactorsAt(dimension);
  const float step = LoadCodeFactors(x, at).step;
  const CodePrefetch prefetch(rows, stride, ids, n);
  for (size_t i = 0; i < n; ++i) {
    prefetch.At(i);
    const uint8_t* row = rows + size_t{ids[i]} * stride;
    dots[i] = step * LoadCodeFactors(row, at).step * static_cast<float>(DotCodes(x, row, dimension));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lightcone
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
