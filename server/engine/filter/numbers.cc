#include "server/engine/filter/numbers.h"

#include <cmath>

namespace lightcone::server {
namespace {

// A negative integer is -magnitude, with magnitude in 1 .. 2^63.
std::partial_ordering CompareIntegerDouble(bool negative, uint64_t magnitude, double d) {
  if (std::isnan(d)) return std::partial_ordering::unordered;
  const double integral = std::trunc(d);
  if (negative) {
    if (d >= 0) return std::partial_ordering::less;
    if (-integral >= 0x1p64) return std::partial_ordering::greater;
    const auto other = static_cast<uint64_t>(-integral);
    if (magnitude != other) return magnitude > other ? std::partial_ordering::less : std::partial_ordering::greater;
  } else {
    if (d < 0) return std::partial_ordering::greater;
    if (integral >= 0x1p64) return std::partial_ordering::less;
    const auto other = static_cast<uint64_t>(integral);
    if (magnitude != other) return magnitude < other ? std::partial_ordering::less : std::partial_ordering::greater;
  }
  const double fraction = d - integral;  // exact
  if (fraction > 0) return std::partial_ordering::less;
  if (fraction < 0) return std::partial_ordering::greater;
  return std::partial_ordering::equivalent;
}

std::partial_ordering Reverse(std::partial_ordering o) { return 0 <=> o; }

}  // namespace

std::partial_ordering Compare(const Number& a, const Number& b) {
  if (a.is_double && b.is_double) return a.d <=> b.d;
  if (a.is_double) return Reverse(CompareIntegerDouble(b.negative, b.magnitude, a.d));
  if (b.is_double) return CompareIntegerDouble(a.negative, a.magnitude, b.d);
  if (a.negative != b.negative) return a.negative ? std::partial_ordering::less : std::partial_ordering::greater;
  return a.negative ? b.magnitude <=> a.magnitude : a.magnitude <=> b.magnitude;
}

}  // namespace lightcone::server
