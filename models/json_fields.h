// Reads typed fields of a JSON object with errors that name the field, its value and what is allowed. Internal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "base/json_depth.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lightcone::internal {

// Parses text from anywhere; discarded (is_discarded()) when malformed or nested deeper than any file of ours, since
// printing recurses as deep as the value.
inline nlohmann::json ParseBounded(std::string_view text) {
  constexpr int kDepthMax = 64;
  if (JsonNestsDeeper(text, kDepthMax)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The value as text, cut to a length that fits an error message.
inline std::string ShortDump(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

// Copies object[key] into `out` when it is there; INVALID_ARGUMENT "field 'prefix.key' is ..." when its type is
// another. A missing key is an error when `required`.
template <typename T>
absl::Status ReadField(const nlohmann::json& object, const std::string& prefix, const char* key, bool required,
                       T& out) {
  const auto found = object.find(key);
  const std::string field = prefix.empty() ? key : prefix + "." + key;
  if (found == object.end()) return required ? InvalidField(field, "missing", "a value") : absl::OkStatus();
  const nlohmann::json& value = *found;
  const char* allowed = "";
  bool fits = false;
  if constexpr (std::is_same_v<T, std::string>) {
    fits = value.is_string();
    allowed = "a string";
  } else if constexpr (std::is_same_v<T, bool>) {
    fits = value.is_boolean();
    allowed = "true or false";
  } else if constexpr (std::is_integral_v<T>) {
    allowed = "an integer in range";
    if (value.is_number_unsigned()) {
      fits = std::in_range<T>(value.get<uint64_t>());
    } else if (value.is_number_integer()) {
      fits = std::in_range<T>(value.get<int64_t>());
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    fits = value.is_number();
    allowed = "a number";
  } else {
    allowed = "a list of numbers";
    fits = value.is_array() && value.size() <= 4096;
    for (size_t i = 0; fits && i < value.size(); ++i) fits = value[i].is_number();
  }
  if (!fits) return InvalidField(field, ShortDump(value), allowed);
  out = value.get<T>();
  return absl::OkStatus();
}

}  // namespace lightcone::internal
