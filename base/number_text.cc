#include "base/number_text.h"

#include <charconv>
#include <cmath>

namespace lightcone {

std::string NumberText(double x) {
  // People read 0.0005 and 100000 faster than the shorter 5e-04 and 1e+05, which std::to_chars would choose.
  const double size = std::abs(x);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e15);
  const std::chars_format format = plain ? std::chars_format::fixed : std::chars_format::general;
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), x, format).ptr};
}

std::string PercentText(double share) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), 100 * share, std::chars_format::general, 3).ptr;
  return std::string(text, end) + " %";
}

}  // namespace lightcone
