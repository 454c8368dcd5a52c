// The dense kernel, compiled once per instruction set by adapter_kernels.cc. Include nowhere else.
//
// A block of up to six rows times four (two with 16 registers) vectors of outputs stays in registers while the inputs
// pass: each loaded weight serves six rows, each broadcast input four vectors.
#if defined(LIGHTCONE_GEOMETRY_ADAPTER_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIGHTCONE_GEOMETRY_ADAPTER_KERNELS_INL_H_
#undef LIGHTCONE_GEOMETRY_ADAPTER_KERNELS_INL_H_
#else
#define LIGHTCONE_GEOMETRY_ADAPTER_KERNELS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "geometry/adapter_kernels.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lightcone {
namespace HWY_NAMESPACE {

// Of |x|^2 + |a|^2: a square of a distance below it is not taken from products, which are a few 1e-7 of that off.
constexpr float kNearShare = 1e-4f;

// |x - a|^2 of input row r and output c's weights.
inline float SquaredGap(const DenseTerm& term, size_t r, size_t c) {
  const float* x = term.rows + r * term.stride;
  const float* a = term.w->At(c);
  float sums[4] = {0, 0, 0, 0};
  for (size_t k = 0; k < term.w->inner(); ++k) {
    const float gap = x[k] - a[k * kPanelColumns];
    sums[k % 4] += gap * gap;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

using Lanes16 = hn::CappedTag<float, kPanelColumns>;
using V = hn::Vec<Lanes16>;

constexpr size_t kLanes = hn::MaxLanes(Lanes16());
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr size_t kVectors = 4;  // 24 sums + 4 weights + 1 input: 32 registers
#else
constexpr size_t kVectors = 2;           // 12 sums + 2 weights + 1 input: 16 registers
#endif

// Named members and always-inlined functions, no arrays and no lambdas: only then do compilers keep sums in registers.
struct RowSums {
  V s0, s1, s2, s3;  // the last ones are unused in narrower blocks
};
struct BlockSums {
  RowSums r0, r1, r2, r3, r4, r5;
};

template <size_t NV>
HWY_INLINE void AddRow(V x, V w0, V w1, V w2, V w3, RowSums& sums) {
  sums.s0 = hn::MulAdd(x, w0, sums.s0);
  if constexpr (NV > 1) sums.s1 = hn::MulAdd(x, w1, sums.s1);
  if constexpr (NV > 2) sums.s2 = hn::MulAdd(x, w2, sums.s2);
  if constexpr (NV > 3) sums.s3 = hn::MulAdd(x, w3, sums.s3);
}

template <size_t NV>
HWY_INLINE RowSums LoadRow(const float* HWY_RESTRICT from) {
  const Lanes16 d;
  RowSums row{hn::Load(d, from), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  if constexpr (NV > 1) row.s1 = hn::Load(d, from + kLanes);
  if constexpr (NV > 2) row.s2 = hn::Load(d, from + 2 * kLanes);
  if constexpr (NV > 3) row.s3 = hn::Load(d, from + 3 * kLanes);
  return row;
}

HWY_INLINE RowSums NoSums() {
  const V zero = hn::Zero(Lanes16());
  return {zero, zero, zero, zero};
}

// Adds W x of MR rows from `row` on, outputs [column, column + NV vectors).
template <size_t MR, size_t NV>
HWY_INLINE void AddTerm(const DenseTerm& term, size_t row, size_t column, BlockSums& sums) {
  const Lanes16 d;
  const size_t inner = term.w->inner();
  const float* HWY_RESTRICT x0 = term.rows + row * term.stride;
  const float* HWY_RESTRICT x1 = x0 + (MR > 1 ? term.stride : 0);
  const float* HWY_RESTRICT x2 = x1 + (MR > 2 ? term.stride : 0);
  const float* HWY_RESTRICT x3 = x2 + (MR > 3 ? term.stride : 0);
  const float* HWY_RESTRICT x4 = x3 + (MR > 4 ? term.stride : 0);
  const float* HWY_RESTRICT x5 = x4 + (MR > 5 ? term.stride : 0);
  const float* HWY_RESTRICT w0 = term.w->At(column);
  const float* HWY_RESTRICT w1 = NV > 1 ? term.w->At(column + kLanes) : w0;
  const float* HWY_RESTRICT w2 = NV > 2 ? term.w->At(column + 2 * kLanes) : w0;
  const float* HWY_RESTRICT w3 = NV > 3 ? term.w->At(column + 3 * kLanes) : w0;
  for (size_t k = 0; k < inner; ++k) {
    const size_t at = k * kPanelColumns;
    const V v0 = hn::Load(d, w0 + at);
    const V v1 = NV > 1 ? hn::Load(d, w1 + at) : v0;
    const V v2 = NV > 2 ? hn::Load(d, w2 + at) : v0;
    const V v3 = NV > 3 ? hn::Load(d, w3 + at) : v0;
    AddRow<NV>(hn::Set(d, x0[k]), v0, v1, v2, v3, sums.r0);
    if constexpr (MR > 1) AddRow<NV>(hn::Set(d, x1[k]), v0, v1, v2, v3, sums.r1);
    if constexpr (MR > 2) AddRow<NV>(hn::Set(d, x2[k]), v0, v1, v2, v3, sums.r2);
    if constexpr (MR > 3) AddRow<NV>(hn::Set(d, x3[k]), v0, v1, v2, v3, sums.r3);
    if constexpr (MR > 4) AddRow<NV>(hn::Set(d, x4[k]), v0, v1, v2, v3, sums.r4);
    if constexpr (MR > 5) AddRow<NV>(hn::Set(d, x5[k]), v0, v1, v2, v3, sums.r5);
  }
}

HWY_INLINE V LoadWeights(const float* w) { return hn::Load(Lanes16(), w); }
HWY_INLINE V LoadWeights(const uint16_t* w) {
  const hn::Rebind<hwy::float16_t, Lanes16> d;
  return hn::PromoteTo(Lanes16(), hn::Load(d, reinterpret_cast<const hwy::float16_t*>(w)));
}

// One input of the single row; see AddSingle.
template <size_t NV, typename W>
HWY_INLINE void AddInput(float x, const W* w0, const W* w1, const W* w2, const W* w3, RowSums& sums) {
  const V v0 = LoadWeights(w0);
  AddRow<NV>(hn::Set(Lanes16(), x), v0, NV > 1 ? LoadWeights(w1) : v0, NV > 2 ? LoadWeights(w2) : v0,
             NV > 3 ? LoadWeights(w3) : v0, sums);
}

// AddTerm for one row, whose few sums would each wait for the one before: r0 .. r3 take every fourth input.
// `step`: what each weight is to be multiplied by.
template <size_t NV, typename W>
HWY_INLINE void AddSingleOf(const float* HWY_RESTRICT x, size_t inner, float step, const W* HWY_RESTRICT w0,
                            const W* HWY_RESTRICT w1, const W* HWY_RESTRICT w2, const W* HWY_RESTRICT w3,
                            BlockSums& sums) {
  constexpr size_t kLine = kPanelColumns;
  size_t k = 0;
  for (; k + 4 <= inner; k += 4) {
    const size_t at = k * kLine;
    AddInput<NV>(step * x[k], w0 + at, w1 + at, w2 + at, w3 + at, sums.r0);
    AddInput<NV>(step * x[k + 1], w0 + at + kLine, w1 + at + kLine, w2 + at + kLine, w3 + at + kLine, sums.r1);
    AddInput<NV>(step * x[k + 2], w0 + at + 2 * kLine, w1 + at + 2 * kLine, w2 + at + 2 * kLine, w3 + at + 2 * kLine,
                 sums.r2);
    AddInput<NV>(step * x[k + 3], w0 + at + 3 * kLine, w1 + at + 3 * kLine, w2 + at + 3 * kLine, w3 + at + 3 * kLine,
                 sums.r3);
  }
  for (; k < inner; ++k) {
    const size_t at = k * kLine;
    AddInput<NV>(step * x[k], w0 + at, w1 + at, w2 + at, w3 + at, sums.r0);
  }
}

#if HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM
constexpr bool kConvertsHalves = true;
#else
constexpr bool kConvertsHalves = false;  // Others convert by many instructions.
#endif

template <size_t NV>
HWY_INLINE void AddSingle(const DenseTerm& term, size_t row, size_t column, BlockSums& sums) {
  const PackedMatrix& w = *term.w;
  const float* x = term.rows + row * term.stride;
  const auto at = [&](float step, auto of) HWY_ATTR {
    AddSingleOf<NV>(x, w.inner(), step, of(column), of(NV > 1 ? column + kLanes : column),
                    of(NV > 2 ? column + 2 * kLanes : column), of(NV > 3 ? column + 3 * kLanes : column), sums);
  };
  if (kConvertsHalves && term.halves) {
    at(w.half_step(), [&w](size_t c) { return w.HalvesAt(c); });
  } else {
    at(1.0f, [&w](size_t c) { return w.At(c); });
  }
}

HWY_INLINE RowSums SumOfParts(const BlockSums& sums) {
  const RowSums& a = sums.r0;
  const RowSums& b = sums.r1;
  const RowSums& c = sums.r2;
  const RowSums& e = sums.r3;
  return {hn::Add(hn::Add(a.s0, b.s0), hn::Add(c.s0, e.s0)), hn::Add(hn::Add(a.s1, b.s1), hn::Add(c.s1, e.s1)),
          hn::Add(hn::Add(a.s2, b.s2), hn::Add(c.s2, e.s2)), hn::Add(hn::Add(a.s3, b.s3), hn::Add(c.s3, e.s3))};
}

// Writes the first `columns` of NV vectors.
template <size_t NV>
HWY_INLINE void StoreRow(RowSums sums, bool relu, size_t columns, float* HWY_RESTRICT out) {
  const Lanes16 d;
  if (relu) {
    const V zero = hn::Zero(d);
    sums.s0 = hn::Max(sums.s0, zero);
    if constexpr (NV > 1) sums.s1 = hn::Max(sums.s1, zero);
    if constexpr (NV > 2) sums.s2 = hn::Max(sums.s2, zero);
    if constexpr (NV > 3) sums.s3 = hn::Max(sums.s3, zero);
  }
  HWY_ALIGN float tail[NV * kLanes];
  float* to = columns >= NV * kLanes ? out : tail;
  hn::StoreU(sums.s0, d, to);
  if constexpr (NV > 1) hn::StoreU(sums.s1, d, to + kLanes);
  if constexpr (NV > 2) hn::StoreU(sums.s2, d, to + 2 * kLanes);
  if constexpr (NV > 3) hn::StoreU(sums.s3, d, to + 3 * kLanes);
  if (to == out) return;
  for (size_t i = 0; i < columns; ++i) out[i] = tail[i];
}

template <size_t MR, size_t NV>
HWY_INLINE void Block(const DenseLayer& layer, size_t row, size_t column, float* out, size_t out_stride) {
  const RowSums offset = LoadRow<NV>(layer.offset + column);
  const size_t columns = std::min(layer.columns - column, NV * kLanes);
  float* to = out + row * out_stride + column;
  if constexpr (MR == 1) {
    BlockSums sums{offset, NoSums(), NoSums(), NoSums(), NoSums(), NoSums()};
    if (layer.first.w != nullptr) AddSingle<NV>(layer.first, row, column, sums);
    if (layer.second.w != nullptr) AddSingle<NV>(layer.second, row, column, sums);
    StoreRow<NV>(SumOfParts(sums), layer.relu, columns, to);
    return;
  }
  BlockSums sums{offset, offset, offset, offset, offset, offset};
  if (layer.first.w != nullptr) AddTerm<MR, NV>(layer.first, row, column, sums);
  if (layer.second.w != nullptr) AddTerm<MR, NV>(layer.second, row, column, sums);
  StoreRow<NV>(sums.r0, layer.relu, columns, to);
  if constexpr (MR > 1) StoreRow<NV>(sums.r1, layer.relu, columns, to + out_stride);
  if constexpr (MR > 2) StoreRow<NV>(sums.r2, layer.relu, columns, to + 2 * out_stride);
  if constexpr (MR > 3) StoreRow<NV>(sums.r3, layer.relu, columns, to + 3 * out_stride);
  if constexpr (MR > 4) StoreRow<NV>(sums.r4, layer.relu, columns, to + 4 * out_stride);
  if constexpr (MR > 5) StoreRow<NV>(sums.r5, layer.relu, columns, to + 5 * out_stride);
}

// All rows of one strip of outputs: its weights stay in the cache meanwhile.
template <size_t NV>
void Strip(const DenseLayer& layer, size_t n, size_t column, float* out, size_t out_stride) {
  size_t row = 0;
  for (; row + 6 <= n; row += 6) Block<6, NV>(layer, row, column, out, out_stride);
  if (row + 4 <= n) {
    Block<4, NV>(layer, row, column, out, out_stride);
    row += 4;
  }
  if (row + 2 <= n) {
    Block<2, NV>(layer, row, column, out, out_stride);
    row += 2;
  }
  if (row < n) Block<1, NV>(layer, row, column, out, out_stride);
}

void DenseImpl(const DenseLayer& layer, size_t n, float* out, size_t out_stride) {
  for (size_t column = 0; column < layer.columns; column += kVectors * kLanes) {
    const size_t vectors = std::min(kVectors, (layer.columns - column + kLanes - 1) / kLanes);
    if (vectors == 1) {
      Strip<1>(layer, n, column, out, out_stride);
    } else if (vectors == 2) {
      Strip<2>(layer, n, column, out, out_stride);
    } else if (vectors == 3) {
      Strip<3>(layer, n, column, out, out_stride);
    } else {
      Strip<4>(layer, n, column, out, out_stride);
    }
  }
}

// Those of a vector of squared distances, of row r from outputs c .. c + kLanes - 1, that are below `least`, once more.
V FromDifferences(const DenseLayer& layer, size_t r, size_t c, V distance2, V least) {
  const Lanes16 d;
  HWY_ALIGN float of[kLanes], bounds[kLanes];
  hn::Store(distance2, d, of);
  hn::Store(least, d, bounds);
  for (size_t i = 0; i < std::min(kLanes, layer.columns - c); ++i) {
    if (of[i] < bounds[i]) of[i] = SquaredGap(layer.first, r, c + i);
  }
  return hn::Load(d, of);
}

void LaplaceImpl(float sharpness, const DenseLayer& layer, const float* squares, size_t n, float* values,
                 size_t stride) {
  const Lanes16 d;
  const V slope = hn::Set(d, -sharpness), two = hn::Set(d, 2.0f), share = hn::Set(d, kNearShare);
  for (size_t r = 0; r < n; ++r) {
    float* HWY_RESTRICT row = values + r * stride;
    const V square = hn::Set(d, squares[r]);
    for (size_t c = 0; c < layer.columns; c += kLanes) {
      V distance2 = hn::NegMulAdd(two, hn::LoadU(d, row + c), square);
      const V least = hn::Mul(share, hn::NegMulAdd(two, hn::Load(d, layer.offset + c), square));
      if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Lt(distance2, least)))) {
        distance2 = FromDifferences(layer, r, c, distance2, least);
      }
      distance2 = hn::Max(distance2, hn::Zero(d));  // columns behind the last that are overwritten
      hn::StoreU(hn::Exp(d, hn::Mul(slope, hn::Sqrt(distance2))), d, row + c);
    }
  }
}

#else  // one lane: machines (or emulators) without any vector unit we know

HWY_INLINE float SumOfTerm(const DenseTerm& term, size_t row, size_t column) {
  if (term.w == nullptr) return 0;
  const float* x = term.rows + row * term.stride;
  const float* w = term.w->At(column);
  float sums[4] = {0, 0, 0, 0};
  for (size_t k = 0; k < term.w->inner(); ++k) sums[k % 4] += x[k] * w[k * kPanelColumns];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void DenseImpl(const DenseLayer& layer, size_t n, float* out, size_t out_stride) {
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < layer.columns; ++column) {
      const float sum =
          layer.offset[column] + SumOfTerm(layer.first, row, column) + SumOfTerm(layer.second, row, column);
      out[row * out_stride + column] = layer.relu ? std::max(sum, 0.0f) : sum;
    }
  }
}

void LaplaceImpl(float sharpness, const DenseLayer& layer, const float* squares, size_t n, float* values,
                 size_t stride) {
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < layer.columns; ++c) {
      float& value = values[r * stride + c];
      float distance2 = squares[r] - 2 * value;
      if (distance2 < kNearShare * (squares[r] - 2 * layer.offset[c])) distance2 = SquaredGap(layer.first, r, c);
      value = std::exp(-sharpness * std::sqrt(distance2));
    }
  }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lightcone
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
