// What the kernels use of CUDA, as plain C++ over fibers.h. Included before index/gpu/scan_kernels-inl.h, by
// emulated_machine.cc alone.
//
// Tensor cores are played as badly as the bounds of scan_bounds.h allow for: four products and the sum at a time, every
// term cut to 24 bits of the largest.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "geometry/codes.h"
#include "tests/gpu/fibers.h"

#define LC_KERNELS on_fibers
#define __global__
#define __device__
#define __shared__ static thread_local
#define __launch_bounds__(threads)
#define LC_UNROLL
#define LC_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define LC_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(lightcone::gpu::emulated::SharedMemory())
#define LC_LOAD_ONCE(pointer) (*(pointer))
#define LC_HALF2_OF_BITS(bits) (lightcone::gpu::Half2{bits})
#define threadIdx (lightcone::gpu::emulated::ThreadIndex())
#define blockIdx (lightcone::gpu::emulated::block_index)
#define gridDim (lightcone::gpu::emulated::grid_size)

namespace lightcone::gpu {

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct __half {
  uint16_t bits;
};
struct Half2 {
  uint32_t bits;
};

inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline uint32_t min(uint32_t x, uint32_t y) { return std::min(x, y); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline uint32_t __popc(uint32_t bits) { return static_cast<uint32_t>(std::popcount(bits)); }

inline float FloatOfHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, significand = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(significand), -24)
                                   : std::ldexp(static_cast<float>(significand + 1024), exponent - 25);
  return bits >> 15 ? -size : size;
}
inline float2 __half22float2(Half2 pair) {
  return {FloatOfHalf(static_cast<uint16_t>(pair.bits)), FloatOfHalf(static_cast<uint16_t>(pair.bits >> 16))};
}

inline void __syncthreads() { emulated::WaitForBlock(); }
inline void __syncwarp() { emulated::WaitForWarp(); }
inline uint32_t __ballot_sync(uint32_t, bool yes) { return emulated::Ballot(yes); }
inline float __shfl_xor_sync(uint32_t, float value, unsigned mask) {
  return __uint_as_float(emulated::Exchange(__float_as_uint(value), emulated::ThreadIndex().x ^ mask));
}
inline uint32_t atomicAdd(uint32_t* to, uint32_t n) {
  const uint32_t before = *to;
  *to += n;
  return before;
}

namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major };

// The first lane has the whole matrix, and does what the warp would do together. x[i][j]: of a and sums row by row, of
// b column by column.
template <typename Use, int m, int n, int k, typename T, typename Layout = void>
struct fragment {
  float x[16][16];
};

inline bool Acts() { return emulated::ThreadIndex().x % 32 == 0; }

template <typename F>
void fill_fragment(F& to, float value) {
  if (Acts()) std::fill(&to.x[0][0], &to.x[0][0] + 256, value);
}

template <typename F>
void load_matrix_sync(F& to, const __half* from, unsigned pitch) {
  for (unsigned i = 0; Acts() && i < 16; ++i) {
    for (unsigned j = 0; j < 16; ++j) to.x[i][j] = FloatOfHalf(from[i * pitch + j].bits);
  }
}

inline float SumCut(float sum, const float* a, const float* b) {
  double terms[5] = {sum}, largest = std::abs(double{sum});
  for (int i = 0; i < 4; ++i) {
    terms[i + 1] = double{a[i]} * double{b[i]};
    largest = std::max(largest, std::abs(terms[i + 1]));
  }
  if (largest == 0) return 0;
  const double unit = std::bit_cast<double>(std::bit_cast<uint64_t>(largest) & 0x7ff0000000000000u) * 0x1p-23;
  double total = 0;
  for (const double term : terms) total += std::trunc(term / unit) * unit;
  const float nearest = static_cast<float>(total);
  return std::abs(double{nearest}) > std::abs(total) ? std::nextafter(nearest, 0.0f) : nearest;
}

template <typename C, typename A, typename B>
void mma_sync(C& to, const A& a, const B& b, const C& sums) {
  for (int i = 0; Acts() && i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      float sum = sums.x[i][j];
      for (int k = 0; k < 16; k += 4) sum = SumCut(sum, &a.x[i][k], &b.x[j][k]);
      to.x[i][j] = sum;
    }
  }
}

template <typename C>
void store_matrix_sync(float* to, const C& from, unsigned pitch, layout_t) {
  for (unsigned i = 0; Acts() && i < 16; ++i) std::copy(from.x[i], from.x[i] + 16, to + i * pitch);
}

}  // namespace wmma
}  // namespace lightcone::gpu
