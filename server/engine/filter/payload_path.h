// Paths into payloads, as filters, payload indexes and chosen fields name them: keys separated by dots. A key that is
// empty, has a dot or begins with a double quote or '$' stands in double quotes, in which a backslash escapes a quote
// or a backslash. Threads: pure functions.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {

// The keys of a path, from the outermost to the innermost; at least one.
using PathKeys = std::vector<std::string>;

// INVALID_ARGUMENT names `field`, the path and what is allowed.
absl::StatusOr<PathKeys> ParsePayloadPath(std::string_view path, std::string_view field);

// The one spelling with as few quotes as there can be.
std::string PathText(std::span<const std::string> keys);

// PathText of the path's keys. A path that does not parse stays as it is.
std::string CanonicalPath(const std::string& path);

// Calls visit(value) for each value that the path leads to, by keys of objects and by any element of arrays. An array
// at the end of the path is one value: its elements are not visited. Stops, and returns true, once `visit` does.
template <typename Visit>
bool VisitEnds(const nlohmann::json& value, std::span<const std::string> keys, const Visit& visit) {
  if (keys.empty()) return visit(value);
  if (value.is_array()) {
    return std::any_of(value.begin(), value.end(),
                       [&](const auto& element) { return VisitEnds(element, keys, visit); });
  }
  if (!value.is_object()) return false;
  const auto found = value.find(keys[0]);
  return found != value.end() && VisitEnds(*found, keys.subspan(1), visit);
}

// Calls visit(value) for a value and, if it is an array, for each of its elements after it, at any depth. Stops as
// VisitEnds.
template <typename Visit>
bool VisitElements(const nlohmann::json& value, const Visit& visit) {
  if (visit(value)) return true;
  return value.is_array() &&
         std::any_of(value.begin(), value.end(), [&](const auto& element) { return VisitElements(element, visit); });
}

// VisitElements of each value at the end of the path.
template <typename Visit>
bool VisitPath(const nlohmann::json& value, std::span<const std::string> keys, const Visit& visit) {
  return VisitEnds(value, keys, [&](const auto& end) { return VisitElements(end, visit); });
}

// How many values an end of a path stands for: none for null, one for each element of an array, one for anything else.
inline uint64_t ValuesOfEnd(const nlohmann::json& end) { return end.is_null() ? 0 : end.is_array() ? end.size() : 1; }

}  // namespace lightcone::server
