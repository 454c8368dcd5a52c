// Scores of rows for many queries, compiled once per instruction set by kernels.cc, after kernels-inl.h. Include
// nowhere else. A register holds the sums of one row with several queries: a number of the row is copied to all its
// lanes, and meets the same number of each query (query_batch.h). Sums run in four parts, as BoundQuery::ScoreErrorMax
// asks for.
#if defined(LIGHTCONE_GEOMETRY_BATCH_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIGHTCONE_GEOMETRY_BATCH_KERNELS_INL_H_
#undef LIGHTCONE_GEOMETRY_BATCH_KERNELS_INL_H_
#else
#define LIGHTCONE_GEOMETRY_BATCH_KERNELS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "geometry/kernels-inl.h"
#include "geometry/kernels.h"
#include "geometry/query_batch.h"
#include "geometry/row_factors.h"
#include "hwy/highway.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lightcone {
namespace HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr size_t kRowsAtOnce = 8;  // 16 sums and 6 operands with two vectors of queries: 32 registers
#else
constexpr size_t kRowsAtOnce = 4;  // 8 sums and 6 operands: 16 registers
#endif
constexpr size_t kBatchPrefetchBytes = 64 * 1024;
constexpr size_t kBatchTileBytes =
    256 * 1024;  // rows that stay in the second-level cache while all queries pass over them

// Named members and always-inlined functions, no arrays and no lambdas: only then do compilers keep sums in registers.
struct FourSums {
  V s0, s1, s2, s3;  // sums of one vector of queries with four rows
};
struct QuadSums {
  FourSums v0, v1;  // sums of two vectors of queries
};
struct BatchSums {
  QuadSums low, high;  // the first four rows, and four more where kRowsAtOnce is 8
};
struct FourRows {
  const float* r0;
  const float* r1;
  const float* r2;
  const float* r3;
};

HWY_INLINE void AddProducts(V x, V r0, V r1, V r2, V r3, FourSums& sums) {
  sums.s0 = hn::MulAdd(x, r0, sums.s0);
  sums.s1 = hn::MulAdd(x, r1, sums.s1);
  sums.s2 = hn::MulAdd(x, r2, sums.s2);
  sums.s3 = hn::MulAdd(x, r3, sums.s3);
}

template <size_t kVectors>
HWY_INLINE void AddQuad(V x0, V x1, const FourRows& r, size_t k, QuadSums& sums) {
  const Lanes1 d;
  const V r0 = hn::Set(d, r.r0[k]), r1 = hn::Set(d, r.r1[k]), r2 = hn::Set(d, r.r2[k]), r3 = hn::Set(d, r.r3[k]);
  AddProducts(x0, r0, r1, r2, r3, sums.v0);
  if constexpr (kVectors == 2) AddProducts(x1, r0, r1, r2, r3, sums.v1);
}

HWY_INLINE void AddSums(const FourSums& x, FourSums& to) {
  to.s0 = hn::Add(to.s0, x.s0);
  to.s1 = hn::Add(to.s1, x.s1);
  to.s2 = hn::Add(to.s2, x.s2);
  to.s3 = hn::Add(to.s3, x.s3);
}

template <size_t kVectors>
HWY_INLINE void AddSums(const QuadSums& x, QuadSums& to) {
  AddSums(x.v0, to.v0);
  if constexpr (kVectors == 2) AddSums(x.v1, to.v1);
}

// Number k of the queries of a vector is at q0 or q1 + k * QueryBatch::kGroup. `ahead`: rows that are asked for
// meanwhile, some after each part of the sums: all at once would keep them waiting.
template <size_t kVectors, bool kPrefetch>
HWY_INLINE BatchSums BatchDots(const float* HWY_RESTRICT q0, const float* HWY_RESTRICT q1, const FourRows& low,
                               const FourRows& high, size_t dim, const float* ahead, size_t stride) {
  const Lanes1 d;
  const V zero = hn::Zero(d);
  const FourSums none{zero, zero, zero, zero};
  const BatchSums nothing{{none, none}, {none, none}};
  BatchSums total = nothing;
  const size_t part = (dim + 3) / 4;
  for (size_t begin = 0; begin < dim; begin += part) {
    BatchSums sums = nothing;
    const size_t end = std::min(begin + part, dim);
    for (size_t k = begin; k < end; ++k) {
      const V x0 = hn::Load(d, q0 + k * QueryBatch::kGroup);
      const V x1 = kVectors == 2 ? hn::Load(d, q1 + k * QueryBatch::kGroup) : x0;
      AddQuad<kVectors>(x0, x1, low, k, sums.low);
      if constexpr (kRowsAtOnce == 8) AddQuad<kVectors>(x0, x1, high, k, sums.high);
    }
    AddSums<kVectors>(sums.low, total.low);
    if constexpr (kRowsAtOnce == 8) AddSums<kVectors>(sums.high, total.high);
    if constexpr (kPrefetch) Prefetch<kSecondLevel>(ahead, kRowsAtOnce / 4 * stride * sizeof(float));
    ahead += kRowsAtOnce / 4 * stride;
  }
  return total;
}

HWY_INLINE V FinishRow(V dots, V b, V c, RowFactors factors) {
  const Lanes1 d;
  const V scaled = hn::NegMulAdd(b, hn::Set(d, factors.bias), hn::Mul(hn::Set(d, factors.scale), dots));
  return hn::Sub(scaled, c);
}

// Scores of up to four rows with the queries of one vector, which begins with query `first`.
HWY_INLINE FourSums FinishRows(const QueryBatch& batch, size_t first, const RowFactors* factors, size_t rows,
                               const FourSums& dots) {
  const Lanes1 d;
  const V b = hn::Load(d, batch.b() + first), c = hn::Load(d, batch.c() + first);
  return {FinishRow(dots.s0, b, c, factors[0]), FinishRow(dots.s1, b, c, factors[rows > 1 ? 1 : 0]),
          FinishRow(dots.s2, b, c, factors[rows > 2 ? 2 : 0]), FinishRow(dots.s3, b, c, factors[rows > 3 ? 3 : 0])};
}

// Keeps every score: those of four rows go to four places side by side for each query.
struct KeepScores {
  float* scores;  // scores of the tile's first row for query 0
  size_t stride;

  HWY_INLINE void Take(size_t first, size_t queries, size_t row, size_t rows, const FourSums& v) const {
    const Lanes1 d;
    const size_t lanes = hn::Lanes(d);
    const V low02 = hn::InterleaveLower(d, v.s0, v.s2), high02 = hn::InterleaveUpper(d, v.s0, v.s2);
    const V low13 = hn::InterleaveLower(d, v.s1, v.s3), high13 = hn::InterleaveUpper(d, v.s1, v.s3);
    // Block i of part j: the four rows for query 4 i + j.
    HWY_ALIGN float parts[4 * HWY_MAX_BYTES / sizeof(float)];
    hn::Store(hn::InterleaveLower(d, low02, low13), d, parts);
    hn::Store(hn::InterleaveUpper(d, low02, low13), d, parts + lanes);
    hn::Store(hn::InterleaveLower(d, high02, high13), d, parts + 2 * lanes);
    hn::Store(hn::InterleaveUpper(d, high02, high13), d, parts + 3 * lanes);
    float* to = scores + first * stride + row;
    for (size_t q = 0; q < queries; ++q, to += stride) {
      const float* const from = parts + q % 4 * lanes + q / 4 * 4;
      if (rows == 4) {
        std::memcpy(to, from, 4 * sizeof(float));
      } else {
        for (size_t i = 0; i < rows; ++i) to[i] = from[i];
      }
    }
  }
  void TakeAlone(const QueryBatch& batch, size_t q, const float* rows, size_t row_stride, const RowFactors* factors,
                 size_t n) const {
    ScoreRowsImpl(batch[q], rows, row_stride, factors, n, scores + q * stride);
  }
};

// Keeps the scores that reach their query's floor: few, once some rows have been seen. And those that are no numbers,
// which nothing but damage makes: whoever ranks them will tell.
struct KeepHits {
  const float* floors;
  size_t begin;   // row of the tile's first
  RowHit* hits;   // hits of query 0
  size_t stride;  // places from query to query
  size_t* found;

  HWY_INLINE void Take(size_t first, size_t queries, size_t row, size_t rows, const FourSums& v) const {
    const Lanes1 d;
    const size_t lanes = hn::Lanes(d);
    V floor;
    if (queries == lanes) {
      floor = hn::LoadU(d, floors + first);
    } else {
      HWY_ALIGN float some[HWY_MAX_BYTES / sizeof(float)];
      for (size_t q = 0; q < lanes; ++q) some[q] = q < queries ? floors[first + q] : hwy::HighestValue<float>();
      floor = hn::Load(d, some);
    }
    if (hn::AllTrue(d, hn::And(hn::And(hn::Lt(v.s0, floor), hn::Lt(v.s1, floor)),
                               hn::And(hn::Lt(v.s2, floor), hn::Lt(v.s3, floor))))) {
      return;
    }
    HWY_ALIGN float scores[4 * HWY_MAX_BYTES / sizeof(float)];
    hn::Store(v.s0, d, scores);
    hn::Store(v.s1, d, scores + lanes);
    hn::Store(v.s2, d, scores + 2 * lanes);
    hn::Store(v.s3, d, scores + 3 * lanes);
    for (size_t q = 0; q < queries; ++q) {
      for (size_t i = 0; i < rows; ++i) Add(first + q, row + i, scores[i * lanes + q]);
    }
  }
  void TakeAlone(const QueryBatch& batch, size_t q, const float* rows, size_t row_stride, const RowFactors* factors,
                 size_t n) const {
    constexpr size_t kAtOnce = 64;
    float scores[kAtOnce];
    for (size_t row = 0; row < n; row += kAtOnce) {
      const size_t here = std::min(kAtOnce, n - row);
      ScoreRowsImpl(batch[q], rows + row * row_stride, row_stride, factors + row, here, scores);
      for (size_t i = 0; i < here; ++i) Add(q, row + i, scores[i]);
    }
  }
  HWY_INLINE void Add(size_t q, size_t row, float score) const {
    if (!(score < floors[q])) hits[q * stride + found[q]++] = {static_cast<uint32_t>(begin + row), score};
  }
};

// Row i + 0 .. i + 3 of those below `n`; in place of others the last one.
HWY_INLINE FourRows RowsFrom(const float* rows, size_t stride, size_t i, size_t n) {
  const auto at = [&](size_t j) { return rows + std::min(i + j, n - 1) * stride; };
  return {at(0), at(1), at(2), at(3)};
}

template <size_t kVectors, bool kPrefetch, class Keep>
HWY_NOINLINE void ScoreVectors(const QueryBatch& batch, size_t first, const float* HWY_RESTRICT rows, size_t stride,
                               const RowFactors* HWY_RESTRICT factors, size_t n, const Keep& keep) {
  const size_t lanes = hn::Lanes(Lanes1()), dim = batch.dimension();
  const auto vector_of = [&](size_t q) {
    return batch.a() + q / QueryBatch::kGroup * dim * QueryBatch::kGroup + q % QueryBatch::kGroup;
  };
  const float* const q0 = vector_of(first);
  const float* const q1 = vector_of(first + (kVectors - 1) * lanes);
  const auto take = [&](size_t q, size_t row, const FourSums& dots) HWY_ATTR {
    if (row >= n || q >= batch.grouped()) return;
    const size_t here = std::min<size_t>(4, n - row);
    keep.Take(q, std::min(lanes, batch.grouped() - q), row, here, FinishRows(batch, q, factors + row, here, dots));
  };
  for (size_t i = 0; i < n; i += kRowsAtOnce) {
    const float* const ahead = rows + i * stride + kBatchPrefetchBytes / sizeof(float);
    const BatchSums sums = BatchDots<kVectors, kPrefetch>(q0, q1, RowsFrom(rows, stride, i, n),
                                                          RowsFrom(rows, stride, i + 4, n), dim, ahead, stride);
    take(first, i, sums.low.v0);
    if constexpr (kVectors == 2) take(first + lanes, i, sums.low.v1);
    if constexpr (kRowsAtOnce == 8) take(first, i + 4, sums.high.v0);
    if constexpr (kRowsAtOnce == 8 && kVectors == 2) take(first + lanes, i + 4, sums.high.v1);
  }
}

// All queries over rows that stay in the cache meanwhile.
template <class Keep>
void ScoreTile(const QueryBatch& batch, const float* HWY_RESTRICT rows, size_t stride,
               const RowFactors* HWY_RESTRICT factors, size_t n, const Keep& keep) {
  const size_t lanes = hn::Lanes(Lanes1()), padded = batch.groups() * QueryBatch::kGroup;
  for (size_t q = 0; q < padded; q += 2 * lanes) {
    const bool two = q + lanes < padded;
    if (q == 0) {
      (two ? ScoreVectors<2, true, Keep> : ScoreVectors<1, true, Keep>)(batch, q, rows, stride, factors, n, keep);
    } else {
      (two ? ScoreVectors<2, false, Keep> : ScoreVectors<1, false, Keep>)(batch, q, rows, stride, factors, n, keep);
    }
  }
  for (size_t q = batch.grouped(); q < batch.size(); ++q) keep.TakeAlone(batch, q, rows, stride, factors, n);
}

HWY_INLINE size_t RowsATile(size_t stride) {
  return std::max<size_t>(1, kBatchTileBytes / (stride * sizeof(float)) / kRowsAtOnce) * kRowsAtOnce;
}

void ScoreRowsBatchImpl(const QueryBatch& batch, const float* HWY_RESTRICT rows, size_t stride,
                        const RowFactors* HWY_RESTRICT factors, size_t n, float* HWY_RESTRICT scores,
                        size_t score_stride) {
  const size_t tile = RowsATile(stride);
  for (size_t begin = 0; begin < n; begin += tile) {
    const KeepScores keep{scores + begin, score_stride};
    ScoreTile(batch, rows + begin * stride, stride, factors + begin, std::min(tile, n - begin), keep);
  }
}

void ScanRowsBatchImpl(const QueryBatch& batch, const float* HWY_RESTRICT rows, size_t stride,
                       const RowFactors* HWY_RESTRICT factors, size_t n, const float* floors, RowHit* hits,
                       size_t* found) {
  std::fill(found, found + batch.size(), size_t{0});
  const size_t tile = RowsATile(stride);
  for (size_t begin = 0; begin < n; begin += tile) {
    const KeepHits keep{floors, begin, hits, n, found};
    ScoreTile(batch, rows + begin * stride, stride, factors + begin, std::min(tile, n - begin), keep);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lightcone
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // include guard of this target
