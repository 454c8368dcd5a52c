// Compiled for the processor at hand.
#include "bench/machine.h"

#include <chrono>
#include <cstdint>

namespace lightcone::bench {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Wide __attribute__((vector_size(kLanes * sizeof(float))));
constexpr int kChains = 12;  // more than latency x units need

double RateOnce() {
  constexpr int64_t kRounds = 2'000'000;
  Wide x, y, sums[kChains];
  for (int i = 0; i < kLanes; ++i) {
    x[i] = 0.999f;
    y[i] = 1e-3f;
    for (Wide& sum : sums) sum[i] = 1;
  }
  asm volatile("" : "+x"(x), "+x"(y));  // not constants, or there is nothing left to do
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * x + y;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (Wide& sum : sums) asm volatile("" : : "x"(sum));
  return 2.0 * kLanes * kChains * kRounds / seconds;
}

}  // namespace

double FmaRate() {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double rate = RateOnce();
    if (rate > best) best = rate;
  }
  return best;
}

}  // namespace lightcone::bench
