#include "geometry/code_kernels_vnni.h"

#include <algorithm>
#include <cstring>

#include "base/prefetch.h"
#include "hwy/base.h"

#if HWY_ARCH_X86_64
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of GCC 12's own header (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

// A function's own target, not a compiler flag of this file: nothing else may be compiled for such a processor here.
#define LC_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define LC_VNNI_INLINE LC_VNNI __attribute__((always_inline)) inline

namespace lightcone {
namespace {

constexpr std::size_t kScanPrefetchBytes = 16 * 1024;
constexpr std::size_t kGatherPrefetchMax = 1024;

// What a kernel needs of a query, in registers or in the first-level cache.
struct Bound {
  const std::int8_t* high;
  const std::int8_t* low;
  std::size_t whole_vectors;  // steps of 64 codes
  __mmask64 tail;             // codes after them
  std::size_t factors_at;
};

LC_VNNI_INLINE Bound Bind(const CodeQuery& query) {
  const std::size_t codes = CodeFactorsAt(CodeKind::kInt8, query.dimension());
  const std::size_t rest = codes % 64;
  return {query.high(), query.low(), codes / 64, rest == 0 ? __mmask64{0} : ((__mmask64{1} << rest) - 1), codes};
}

// Sums of A (c + 128) in sixteen lanes, modulo 2^32.
LC_VNNI_INLINE __m512i DotLanes(const Bound& bound, const std::uint8_t* row) {
  __m512i high = _mm512_setzero_si512(), low = high;
  std::size_t i = 0;
  for (; i < bound.whole_vectors; ++i) {
    const __m512i codes = _mm512_loadu_si512(row + 64 * i);
    high = _mm512_dpbusd_epi32(high, codes, _mm512_loadu_si512(bound.high + 64 * i));
    low = _mm512_dpbusd_epi32(low, codes, _mm512_loadu_si512(bound.low + 64 * i));
  }
  if (bound.tail != 0) {
    const __m512i codes = _mm512_maskz_loadu_epi8(bound.tail, row + 64 * i);
    high = _mm512_dpbusd_epi32(high, codes, _mm512_loadu_si512(bound.high + 64 * i));
    low = _mm512_dpbusd_epi32(low, codes, _mm512_loadu_si512(bound.low + 64 * i));
  }
  return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}

LC_VNNI_INLINE __m256i Half(__m512i v) {
  return _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
}

// {sum of v0, .. v1, .. v2, .. v3}
LC_VNNI_INLINE __m128i SumEach(__m512i v0, __m512i v1, __m512i v2, __m512i v3) {
  const __m256i pairs01 = _mm256_hadd_epi32(Half(v0), Half(v1));
  const __m256i pairs23 = _mm256_hadd_epi32(Half(v2), Half(v3));
  const __m256i sums = _mm256_hadd_epi32(pairs01, pairs23);
  return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
}

struct FourScores {
  __m128 score, error;  // error: the rows' own, not yet times |a|
};

LC_VNNI_INLINE FourScores ScoreFour(const CodeQuery& query, const Bound& bound, const std::uint8_t* r0,
                                    const std::uint8_t* r1, const std::uint8_t* r2, const std::uint8_t* r3) {
  const __m128i dots = SumEach(DotLanes(bound, r0), DotLanes(bound, r1), DotLanes(bound, r2), DotLanes(bound, r3));
  __m128 step = _mm_loadu_ps(reinterpret_cast<const float*>(r0 + bound.factors_at));
  __m128 bias = _mm_loadu_ps(reinterpret_cast<const float*>(r1 + bound.factors_at));
  __m128 error = _mm_loadu_ps(reinterpret_cast<const float*>(r2 + bound.factors_at));
  __m128 reserved = _mm_loadu_ps(reinterpret_cast<const float*>(r3 + bound.factors_at));
  _MM_TRANSPOSE4_PS(step, bias, error, reserved);
  const __m128 dot = _mm_cvtepi32_ps(_mm_sub_epi32(dots, _mm_set1_epi32(static_cast<int>(query.offset()))));
  const __m128 scaled = _mm_mul_ps(step, _mm_mul_ps(_mm_set1_ps(query.sigma()), dot));
  const __m128 less_bias = _mm_sub_ps(scaled, _mm_mul_ps(_mm_set1_ps(query.b()), bias));
  return {_mm_sub_ps(less_bias, _mm_set1_ps(query.c())), error};
}

// Four rows of a gathered list, and a request for those that come next. The last group repeats its last row.
class Gathered {
 public:
  LC_VNNI_INLINE Gathered(const std::uint8_t* rows, std::size_t stride, const std::uint32_t* ids, std::size_t n)
      : rows_(rows), stride_(stride), ids_(ids), n_(n) {}

  LC_VNNI_INLINE void MoveTo(std::size_t i) {
    const std::size_t ahead = stride_ < kGatherPrefetchMax ? stride_ : kGatherPrefetchMax;
    for (; prefetched_ < n_ && prefetched_ < i + 8; ++prefetched_) {
      const std::uint8_t* const next = rows_ + std::size_t{ids_[prefetched_]} * stride_;
      Prefetch(next, ahead);
      if (ahead < stride_) Prefetch(next + stride_ - sizeof(CodeFactors), sizeof(CodeFactors));
    }
    last = n_ - i < 4 ? n_ - i - 1 : 3;
    for (std::size_t j = 0; j < 4; ++j) row[j] = rows_ + std::size_t{ids_[i + (last < j ? last : j)]} * stride_;
  }
  LC_VNNI_INLINE void Store(__m128 values, float* out) const {
    if (last == 3) {
      _mm_storeu_ps(out, values);
    } else {
      _mm_mask_storeu_ps(out, static_cast<__mmask8>((2u << last) - 1), values);
    }
  }

  const std::uint8_t* row[4] = {};
  std::size_t last = 3;  // last of the four rows that is a row of its own

 private:
  const std::uint8_t* const rows_;
  const std::size_t stride_;
  const std::uint32_t* const ids_;
  const std::size_t n_;
  std::size_t prefetched_ = 0;
};

// As CodeError of code_kernels-inl.h.
LC_VNNI_INLINE __m128 ErrorOf(const CodeQuery& query, const FourScores& four) {
  const __m128 slack = _mm_set1_ps(query.slack());
  if (!query.euclidean()) return _mm_add_ps(slack, _mm_mul_ps(_mm_set1_ps(query.a_norm()), four.error));
  const __m128 distance = _mm_sqrt_ps(_mm_max_ps(_mm_sub_ps(slack, four.score), _mm_setzero_ps()));
  const __m128 both =
      _mm_add_ps(_mm_mul_ps(_mm_set1_ps(2.00001f), distance), _mm_mul_ps(_mm_set1_ps(1.00001f), four.error));
  return _mm_add_ps(slack, _mm_mul_ps(four.error, both));
}

constexpr std::size_t kBatchRows = 8;  // 16 sums, two parts of the queries, one of the row
constexpr std::size_t kBatchPrefetchBytes = 32 * 1024;

// Of a row with the queries of a group; as ScoreFour and ErrorOf have them of four rows with one query.
struct GroupScores {
  __m512 score, error;
};

LC_VNNI_INLINE GroupScores FinishGroup(const CodeQueryBatch::Factors& queries, bool euclidean, __m512i high,
                                       __m512i low, const CodeFactors& row) {
  const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
  const __m512 dot = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_load_si512(queries.offset)));
  const __m512 scaled = _mm512_mul_ps(_mm512_set1_ps(row.step), _mm512_mul_ps(_mm512_load_ps(queries.sigma), dot));
  const __m512 less_bias = _mm512_sub_ps(scaled, _mm512_mul_ps(_mm512_load_ps(queries.b), _mm512_set1_ps(row.bias)));
  const __m512 score = _mm512_sub_ps(less_bias, _mm512_load_ps(queries.c));
  const __m512 slack = _mm512_load_ps(queries.slack), error = _mm512_set1_ps(row.error);
  if (!euclidean) return {score, _mm512_add_ps(slack, _mm512_mul_ps(_mm512_load_ps(queries.a_norm), error))};
  const __m512 distance = _mm512_sqrt_ps(_mm512_max_ps(_mm512_sub_ps(slack, score), _mm512_setzero_ps()));
  const __m512 both =
      _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(2.00001f), distance), _mm512_mul_ps(_mm512_set1_ps(1.00001f), error));
  return {score, _mm512_add_ps(slack, _mm512_mul_ps(error, both))};
}

// One group over rows begin .. begin + kBatchRows - 1 of those below n; in place of others the last one.
LC_VNNI_INLINE void ScanGroup(const CodeQueryBatch& queries, std::size_t group, const std::uint8_t* rows,
                              std::size_t stride, std::size_t begin, std::size_t n, const float* floors, CodeHit* hits,
                              std::size_t* found) {
  const std::size_t first = group * CodeQueryBatch::kGroup;
  const std::size_t count = std::min(CodeQueryBatch::kGroup, queries.grouped() - first);
  const std::uint8_t* row[kBatchRows];
  __m512i high[kBatchRows], low[kBatchRows];
#pragma GCC unroll 8
  for (std::size_t j = 0; j < kBatchRows; ++j) {
    row[j] = rows + std::min(begin + j, n - 1) * stride;
    high[j] = low[j] = _mm512_setzero_si512();
  }
  const std::int8_t* parts = queries.parts(group);
  for (std::size_t step = 0; step < queries.steps(); ++step, parts += CodeQueryBatch::kStepBytes) {
    const __m512i a_high = _mm512_load_si512(parts), a_low = _mm512_load_si512(parts + CodeQueryBatch::kStepBytes / 2);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kBatchRows; ++j) {
      std::int32_t four;
      std::memcpy(&four, row[j] + 4 * step, sizeof(four));
      const __m512i codes = _mm512_set1_epi32(four);
      high[j] = _mm512_dpbusd_epi32(high[j], codes, a_high);
      low[j] = _mm512_dpbusd_epi32(low[j], codes, a_low);
    }
  }
  const __mmask16 there = static_cast<__mmask16>((1u << count) - 1);
  const __m512 least = _mm512_maskz_loadu_ps(there, floors + first);
  const bool euclidean = queries[first].euclidean();
#pragma GCC unroll 8
  for (std::size_t j = 0; j < kBatchRows; ++j) {
    CodeFactors factors;
    std::memcpy(&factors, row[j] + 4 * queries.steps(), sizeof(factors));
    const GroupScores scores = FinishGroup(queries.factors(group), euclidean, high[j], low[j], factors);
    unsigned near = _mm512_mask_cmp_ps_mask(there, _mm512_add_ps(scores.score, scores.error), least, _CMP_GE_OQ);
    if (near == 0 || begin + j >= n) continue;
    alignas(64) float score[CodeQueryBatch::kGroup];
    alignas(64) float error[CodeQueryBatch::kGroup];
    _mm512_store_ps(score, scores.score);
    _mm512_store_ps(error, scores.error);
    for (; near != 0; near &= near - 1) {
      const std::size_t lane = static_cast<std::size_t>(__builtin_ctz(near)), q = first + lane;
      hits[q * n + found[q]++] = {static_cast<std::uint32_t>(begin + j), score[lane], error[lane]};
    }
  }
}

}  // namespace

bool HaveVnni() {
  static const bool have = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512vnni");
  return have;
}

LC_VNNI std::size_t ScanCodesVnni(const CodeQuery& query, const std::uint8_t* rows, std::size_t stride, std::size_t n,
                                  float floor, CodeHit* hits) {
  const Bound bound = Bind(query);
  const __m128 floors = _mm_set1_ps(floor);
  std::size_t found = 0;
  for (std::size_t i = 0; i < n; i += 4) {
    const std::uint8_t* r0 = rows + i * stride;
    Prefetch<kSecondLevel>(r0 + kScanPrefetchBytes, 4 * stride);
    // The last group repeats its last row instead of reading past the end.
    const std::size_t last = n - i < 4 ? n - i - 1 : 3;
    const std::uint8_t* r1 = r0 + (last < 1 ? last : 1) * stride;
    const std::uint8_t* r2 = r0 + (last < 2 ? last : 2) * stride;
    const std::uint8_t* r3 = r0 + last * stride;
    const FourScores four = ScoreFour(query, bound, r0, r1, r2, r3);
    const __m128 error = ErrorOf(query, four);
    unsigned near =
        static_cast<unsigned>(_mm_cmp_ps_mask(_mm_add_ps(four.score, error), floors, _CMP_GE_OQ)) & ((2u << last) - 1);
    if (near == 0) continue;
    alignas(16) float scores[4];
    alignas(16) float errors[4];
    _mm_store_ps(scores, four.score);
    _mm_store_ps(errors, error);
    for (; near != 0; near &= near - 1) {
      const unsigned j = static_cast<unsigned>(__builtin_ctz(near));
      hits[found++] = {static_cast<std::uint32_t>(i + j), scores[j], errors[j]};
    }
  }
  return found;
}

LC_VNNI void ScanCodesBatchVnni(const CodeQueryBatch& queries, const std::uint8_t* rows, std::size_t stride,
                                std::size_t n, const float* floors, CodeHit* hits, std::size_t* found) {
  std::fill(found, found + queries.grouped(), std::size_t{0});
  for (std::size_t i = 0; i < n; i += kBatchRows) {
    Prefetch<kSecondLevel>(rows + i * stride + kBatchPrefetchBytes, kBatchRows * stride);
    for (std::size_t group = 0; group < queries.groups(); ++group) {
      ScanGroup(queries, group, rows, stride, i, n, floors, hits, found);
    }
  }
}

LC_VNNI void ScoreCodesGatheredVnni(const CodeQuery& query, const std::uint8_t* rows, std::size_t stride,
                                    const std::uint32_t* ids, std::size_t n, float* scores) {
  const Bound bound = Bind(query);
  Gathered four(rows, stride, ids, n);
  for (std::size_t i = 0; i < n; i += 4) {
    four.MoveTo(i);
    four.Store(ScoreFour(query, bound, four.row[0], four.row[1], four.row[2], four.row[3]).score, scores + i);
  }
}

LC_VNNI void DotCodesGatheredVnni(const std::uint8_t* x, const std::uint8_t* rows, std::size_t stride, int dimension,
                                  const std::uint32_t* ids, std::size_t n, float* dots) {
  // Codes are stored 128 too high: x is made signed by its highest bit, and 128 times its sum is taken off again.
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
  const std::size_t codes = CodeFactorsAt(CodeKind::kInt8, dimension);
  const auto step = [codes](const std::uint8_t* row)
                        LC_VNNI { return _mm_load_ss(reinterpret_cast<const float*>(row + codes)); };
  const __m128 own = _mm_broadcastss_ps(step(x));
  Gathered four(rows, stride, ids, n);
  for (std::size_t i = 0; i < n; i += 4) {
    four.MoveTo(i);
    __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    __m512i offset = _mm512_setzero_si512();
    for (std::size_t at = 0; at < codes; at += 64) {
      const __mmask64 lanes = codes - at >= 64 ? ~__mmask64{0} : (__mmask64{1} << (codes - at)) - 1;
      const __m512i c = _mm512_xor_si512(flip, _mm512_mask_loadu_epi8(flip, lanes, x + at));
      offset = _mm512_dpbusd_epi32(offset, flip, c);
      for (std::size_t j = 0; j < 4; ++j) {
        sum[j] = _mm512_dpbusd_epi32(sum[j], _mm512_maskz_loadu_epi8(lanes, four.row[j] + at), c);
      }
    }
    const __m128i dot = _mm_sub_epi32(SumEach(sum[0], sum[1], sum[2], sum[3]), SumEach(offset, offset, offset, offset));
    const __m128 steps = _mm_movelh_ps(_mm_unpacklo_ps(step(four.row[0]), step(four.row[1])),
                                       _mm_unpacklo_ps(step(four.row[2]), step(four.row[3])));
    four.Store(_mm_mul_ps(_mm_mul_ps(own, steps), _mm_cvtepi32_ps(dot)), dots + i);
  }
}

}  // namespace lightcone

#else  // not x86-64

namespace lightcone {

bool HaveVnni() { return false; }
std::size_t ScanCodesVnni(const CodeQuery&, const std::uint8_t*, std::size_t, std::size_t, float, CodeHit*) {
  return 0;
}
void ScanCodesBatchVnni(const CodeQueryBatch&, const std::uint8_t*, std::size_t, std::size_t, const float*, CodeHit*,
                        std::size_t*) {}
void ScoreCodesGatheredVnni(const CodeQuery&, const std::uint8_t*, std::size_t, const std::uint32_t*, std::size_t,
                            float*) {}
void DotCodesGatheredVnni(const std::uint8_t*, const std::uint8_t*, std::size_t, int, const std::uint32_t*, std::size_t,
                          float*) {}

}  // namespace lightcone
#endif
