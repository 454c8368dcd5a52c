#include "geometry/adapter_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "geometry/codes.h"

// As in kernels.cc.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "geometry/adapter_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

// After foreach_target.h, which includes this file once for each instruction set.
#include "geometry/adapter_kernels-inl.h"

#if HWY_ONCE
namespace lightcone {
namespace {

// A line between panels: without it the panels of 512 inputs would start on the same cache sets.
constexpr std::size_t kPanelGap = kPanelColumns;
constexpr std::size_t kHalvesFromFloats = (256 << 10) / sizeof(float);
constexpr int kHalfExponentMax = 14;  // exponent that the largest weight gets

}  // namespace

HWY_EXPORT(DenseImpl);
HWY_EXPORT(LaplaceImpl);

PackedMatrix::PackedMatrix(std::span<const float> weights, std::size_t columns, std::size_t inner)
    : columns_(columns),
      inner_(inner),
      panel_floats_(inner * kPanelColumns + kPanelGap),
      values_((columns + kPanelColumns - 1) / kPanelColumns * panel_floats_) {
  for (std::size_t column = 0; column < columns; ++column) {
    float* to = values_.data() + (At(column) - values_.data());
    for (std::size_t k = 0; k < inner; ++k) to[k * kPanelColumns] = weights[column * inner + k];
  }
}

void PackedMatrix::AddHalves() {
  if (values_.size() < kHalvesFromFloats) return;
  float largest = 0;
  for (const float value : values_) largest = std::max(largest, std::abs(value));
  const int exponent = largest > 0 ? std::ilogb(largest) - kHalfExponentMax : 0;
  half_step_ = std::ldexp(1.0f, exponent);
  halves_ = AlignedFloats((values_.size() + 1) / 2);
  auto* const to = reinterpret_cast<char*>(halves_.data());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::uint16_t half = HalfOf(std::ldexp(static_cast<double>(values_[i]), -exponent));
    std::memcpy(to + i * sizeof(half), &half, sizeof(half));
  }
}

void ApplyDense(const DenseLayer& layer, std::size_t n, float* out, std::size_t out_stride) {
  HWY_DYNAMIC_DISPATCH(DenseImpl)(layer, n, out, out_stride);
}

void ApplyLaplace(float sharpness, const DenseLayer& layer, const float* squares, std::size_t n, float* values,
                  std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(LaplaceImpl)(sharpness, layer, squares, n, values, stride);
}

}  // namespace lightcone
#endif  // HWY_ONCE
