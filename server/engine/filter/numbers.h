// Numbers of payloads and filters, compared exactly: 64-bit integers and doubles as real numbers, neither rounded.
// Threads: pure functions.
#pragma once

#include <compare>
#include <cstdint>

namespace lightcone::server {

// An integer in -2^63 .. 2^64 - 1 as sign and magnitude, or a double.
struct Number {
  bool is_double = false, negative = false;  // negative: the integer is -magnitude
  uint64_t magnitude = 0;
  double d = 0;
};

inline Number NumberOf(int64_t i) {
  return {false, i < 0, i < 0 ? uint64_t{0} - static_cast<uint64_t>(i) : static_cast<uint64_t>(i), 0};
}
inline Number NumberOf(uint64_t i) { return {false, false, i, 0}; }
inline Number NumberOf(double d) { return {true, false, 0, d}; }

std::partial_ordering Compare(const Number& a, const Number& b);

}  // namespace lightcone::server
