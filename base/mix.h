// A bijection of 64 bits that spreads close numbers far apart, for reproducible draws. Threads: pure function.
#pragma once

#include <cstdint>

namespace lightcone {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
inline uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace lightcone
