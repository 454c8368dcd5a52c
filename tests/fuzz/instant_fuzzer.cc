// Any two texts, a line each, as points in time: the order of instants, of their keys and of the texts of these agree.
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/engine/filter/instant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server;  // NOLINT: a file of one function
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(text.find('\n'), text.size());
  const std::string_view one = text.substr(0, line), other = text.substr(std::min(line + 1, text.size()));
  const auto instant = ParseInstant(one), bound = ParseInstant(other);
  const auto key = TimeKey(one), bound_key = TimeKey(other);
  (void)OrdersTimeTexts(one);
  if (key) {
    if (!instant) std::abort();
    const std::string again = TimeText(*key);
    if (TimeKey(again) != key || CompareTexts(again, one) != std::partial_ordering::equivalent) std::abort();
  }
  const auto order = CompareTexts(one, other), back = CompareTexts(other, one);
  if (instant && bound &&
      (order == std::partial_ordering::unordered || (order < 0) != (back > 0) || (order == 0) != (back == 0)))
    std::abort();
  if (!instant && bound && order != std::partial_ordering::unordered) std::abort();
  if (key && bound_key && (*key <=> *bound_key) != order) std::abort();
  return 0;
}
