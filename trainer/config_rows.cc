#include "trainer/config_rows.h"

#include <cstdio>
#include <cstdlib>

namespace lightcone {

std::string ShowNumber(double value) {
  char buffer[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  return buffer;
}

namespace internal {

std::string ShowJson(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return ShowNumber(value.get<double>());
  return value.dump();
}

bool IsWord(std::string_view value, std::string_view words) {
  while (!words.empty()) {
    const size_t comma = words.find(", ");
    if (words.substr(0, comma) == value) return true;
    words = comma == std::string_view::npos ? std::string_view() : words.substr(comma + 2);
  }
  return false;
}

}  // namespace internal
}  // namespace lightcone
