// Bodies of the code kernels for any instruction set, compiled once per set by code_kernels.cc. Include nowhere else.
#if defined(LIGHTCONE_GEOMETRY_CODE_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIGHTCONE_GEOMETRY_CODE_KERNELS_INL_H_
#undef LIGHTCONE_GEOMETRY_CODE_KERNELS_INL_H_
#else
#define LIGHTCONE_GEOMETRY_CODE_KERNELS_INL_H_
#endif

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

HWY_INLINE float CodeScore(const CodeQuery& query, uint32_t dot, const CodeFactors& factors) {
  const float signed_dot = static_cast<float>(static_cast<int32_t>(dot - query.offset()));
  return factors.step * (query.sigma() * signed_dot) - query.b() * factors.bias - query.c();
}

HWY_INLINE CodeFactors LoadCodeFactors(const uint8_t* row, size_t at) {
  CodeFactors factors;
  std::memcpy(&factors, row + at, sizeof(factors));
  return factors;
}

size_t ScanCodesImpl(const CodeQuery& query, const uint8_t* HWY_RESTRICT rows, size_t stride, size_t n, float slack,
                     float floor, CodeHit* HWY_RESTRICT hits) {
  const size_t at = CodeFactorsAt(query.dimension());
  size_t found = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* row = rows + i * stride;
    for (size_t offset = 0; offset < stride; offset += 64) {
      __builtin_prefetch(row + kCodePrefetchBytes + offset, 0, 2);
    }
    const CodeFactors factors = LoadCodeFactors(row, at);
    const float score = CodeScore(query, CodeDot(query, row), factors);
    const float error = slack + query.a_norm() * factors.error;
    if (score + error >= floor) hits[found++] = {static_cast<uint32_t>(i), score, error};
  }
  return found;
}

void ScoreCodesGatheredImpl(const CodeQuery& query, const uint8_t* HWY_RESTRICT rows, size_t stride,
                            const uint32_t* HWY_RESTRICT ids, size_t n, float* HWY_RESTRICT scores) {
  const size_t at = CodeFactorsAt(query.dimension());
  const size_t ahead = stride < kCodeGatherPrefetchMax ? stride : kCodeGatherPrefetchMax;
  const auto prefetch = [&](size_t i) {
    const uint8_t* row = rows + size_t{ids[i]} * stride;
    for (size_t offset = 0; offset < ahead; offset += 64) __builtin_prefetch(row + offset, 0, 3);
    __builtin_prefetch(row + stride - 1, 0, 3);
  };
  for (size_t i = 0; i < n && i < 4; ++i) prefetch(i);
  for (size_t i = 0; i < n; ++i) {
    if (i + 4 < n) prefetch(i + 4);
    const uint8_t* row = rows + size_t{ids[i]} * stride;
    scores[i] = CodeScore(query, CodeDot(query, row), LoadCodeFactors(row, at));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lightcone
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
