// Dense layers in float32 for adapters: y = [relu](offset + W1 x1 + W2 x2), one source for every instruction set
// (Highway), chosen once at run time as in kernels.h (ForceKernelTarget acts on these, too).
// Threads: safe concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "geometry/aligned.h"

namespace lightcone {

// Weights are packed in panels of this many outputs, whatever the instruction set: for each input k the panel holds its
// 16 weights side by side, one cache line.
inline constexpr std::size_t kPanelColumns = 16;

// W [columns x inner] packed: panel p holds outputs 16p .. 16p+15 (zeros where W ends), one line an input.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // `weights` is row major, columns x inner.
  PackedMatrix(std::span<const float> weights, std::size_t columns, std::size_t inner);

  // Where output `column`'s weights begin, at input 0; those of the next input are kPanelColumns floats on.
  // 16-byte aligned at least where `column` is a multiple of 4, and so on for the wider registers.
  const float* At(std::size_t column) const {
    return values_.data() + column / kPanelColumns * panel_floats_ + column % kPanelColumns;
  }
  // Keeps the weights in half precision as well, for single rows: these read each weight once, so that they take as
  // long as the weights' bytes. Nothing happens where the weights are few enough for a cache beside the processor.
  void AddHalves();
  bool has_halves() const { return !halves_.empty(); }
  // As At, of float16s: a weight is the one here times half_step(), a power of two. Its relative error is at most
  // 2^-11, or 2^-39 of the largest weight's size.
  const std::uint16_t* HalvesAt(std::size_t column) const {
    return reinterpret_cast<const std::uint16_t*>(halves_.data()) + (At(column) - values_.data());
  }
  float half_step() const { return half_step_; }
  std::size_t columns() const { return columns_; }
  std::size_t inner() const { return inner_; }
  std::size_t bytes() const { return (values_.size() + halves_.size()) * sizeof(float); }
  bool empty() const { return columns_ == 0; }

 private:
  std::size_t columns_ = 0, inner_ = 0, panel_floats_ = 0;
  AlignedFloats values_, halves_;  // two float16s in a float's place
  float half_step_ = 1;
};

// W x for every row: `rows` are `stride` floats apart and have w->inner() floats. w null: no such term.
struct DenseTerm {
  const float* rows = nullptr;
  std::size_t stride = 0;
  const PackedMatrix* w = nullptr;
  bool halves = false;  // A single row may read the weights in half precision. REQUIRES: w->has_halves()
};

struct DenseLayer {
  DenseTerm first, second;
  const float* offset = nullptr;  // 64-byte aligned, padded with zeros to a multiple of 16
  bool relu = false;
  std::size_t columns = 0;  // outputs, as of the terms' matrices
};

// values[r * stride + c] = exp(-sharpness |x_r - a_c|), the Laplace kernel, for r < n, c < layer.columns, of what
// `layer` gave: <a_c, x_r> - |a_c|^2 / 2 with x_r its first term's rows and a_c its matrix; squares[r] = |x_r|^2.
// Distances of less than a hundredth of the lengths are summed from the differences: such products keep few of their
// digits. What stands up to the next multiple of kPanelColumns is overwritten: stride >= that.
void ApplyLaplace(float sharpness, const DenseLayer& layer, const float* squares, std::size_t n, float* values,
                  std::size_t stride);

// out[r * out_stride + c] for r < n, c < layer.columns; nothing else is written. `out` overlaps no input. Sums run in
// order of k, or in four interleaved parts for a single row.
void ApplyDense(const DenseLayer& layer, std::size_t n, float* out, std::size_t out_stride);

}  // namespace lightcone
