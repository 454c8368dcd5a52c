// A random generator whose numbers are the same on every machine and with every standard library.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "base/mix.h"

namespace lightcone {

// One seed from several numbers (seed, epoch, index ...). The order of the numbers counts.
inline uint64_t MixSeed(std::initializer_list<uint64_t> parts) {
  uint64_t state = 0;
  for (const uint64_t part : parts) state = Mixed(state ^ part);
  return state;
}

// xoshiro256** 1.0 (Blackman, Vigna 2018), seeded by splitmix64. Threads: one generator a thread.
class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (uint64_t& word : state_) word = Mixed(seed++);
  }

  uint64_t Next() {
    const uint64_t result = Rotate(state_[1] * 5, 7) * 9, carry = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= carry;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1), and in [low, high).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }

  // Uniform in 0 .. n-1. REQUIRES: n > 0. A multiplication and a shift: the bias is below n / 2^32.
  uint32_t Below(uint32_t n) {
    LC_DCHECK(n > 0);
    return static_cast<uint32_t>(((Next() >> 32) * n) >> 32);
  }

  // Approximately normal with mean 0 and deviation 1, within +-3.46: the sum of four 16-bit uniforms, without libm.
  double Normal() {
    const uint64_t bits = Next();
    const int64_t sum =
        static_cast<int64_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
    return static_cast<double>(sum - 131070) * (1.7320508075688772 / 65536.0);
  }

  template <typename T>
  void Shuffle(std::vector<T>* values) {
    for (size_t i = values->size(); i > 1; --i) std::swap((*values)[i - 1], (*values)[Below(static_cast<uint32_t>(i))]);
  }

 private:
  static uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  uint64_t state_[4];
};

}  // namespace lightcone
