// Sums in double precision, for the distances that callers are told: one source for every instruction set (Highway).
// Each runs in eight chains of additions whose order does not depend on the machine, without fused multiplication, so
// that the same vectors have the same distance everywhere. 0 for n = 0; pointers need no alignment.
// Threads: pure functions.
#pragma once

#include <cstddef>

namespace lightcone {

// Sum of x_i^2.
double ExactSquares(const float* x, std::size_t n);

// Sum of (q_i - scale x_i)^2; 0 where every q_i is the rounded scale x_i.
double ExactSquaredGap(const double* q, const float* x, double scale, std::size_t n);

// Sum of q_i x_i.
double ExactDot(const double* q, const float* x, std::size_t n);

}  // namespace lightcone
