// Follows the path of a filter's field through a payload. Threads: pure functions.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace lightcone::server {

// Calls visit(value) for each value that `path` leads to, by keys of objects and by any element of arrays. An array at
// the end of the path comes before its elements. Stops, and returns true, once `visit` does.
template <typename Visit>
bool VisitPath(const nlohmann::json& value, std::string_view path, const Visit& visit) {
  if (path.empty() && visit(value)) return true;
  if (value.is_array()) {
    return std::any_of(value.begin(), value.end(),
                       [&](const auto& element) { return VisitPath(element, path, visit); });
  }
  if (path.empty() || !value.is_object()) return false;
  const size_t dot = std::min(path.find('.'), path.size());
  const auto found = value.find(std::string(path.substr(0, dot)));
  return found != value.end() && VisitPath(*found, path.substr(std::min(dot + 1, path.size())), visit);
}

}  // namespace lightcone::server
