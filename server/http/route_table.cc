#include "server/http/route_table.h"

#include "base/status.h"

namespace lightcone::server {
namespace {

using Parameters = std::map<std::string, std::string>;

bool IsParameter(std::string_view part) { return part.size() > 2 && part.front() == '{' && part.back() == '}'; }

// The text up to the next slash, which is taken off `rest` with the slash. `last`: there was none.
std::string_view TakePart(std::string_view* rest, bool* last) {
  const size_t slash = rest->find('/');
  *last = slash == std::string_view::npos;
  const std::string_view part = rest->substr(0, slash);
  *rest = *last ? std::string_view() : rest->substr(slash + 1);
  return part;
}

bool Covers(std::string_view pattern, std::string_view path, Parameters* parameters) {
  parameters->clear();
  for (bool pattern_ends = false, path_ends = false;;) {
    const std::string_view wanted = TakePart(&pattern, &pattern_ends);
    if (wanted == "*" && pattern_ends) return !path.empty();
    const std::string_view part = TakePart(&path, &path_ends);
    if (IsParameter(wanted)) {
      if (part.empty()) return false;
      parameters->emplace(wanted.substr(1, wanted.size() - 2), part);
    } else if (wanted != part) {
      return false;
    }
    if (pattern_ends || path_ends) return pattern_ends && path_ends;
  }
}

}  // namespace

absl::Status RouteTable::Check() const {
  using Place = CollectionParameter::Place;
  for (const Route& route : routes_) {
    if (route.access.open()) continue;
    const auto& [place, name, is_new] = route.access.collection();
    const bool named = place == Place::kPath || place == Place::kQuery || place == Place::kBody;
    const bool missing = place == Place::kPath && route.pattern.find(StrCat("{", name, "}")) == std::string::npos;
    if (missing || named == name.empty() || (place == Place::kBody && route.body_bytes_max == 0)) {
      return Internal(
          StrCat("route ", route.method, " ", route.pattern, ": no place for its collection's name '", name, "'"));
    }
  }
  return absl::OkStatus();
}

RouteTable::Match RouteTable::Find(std::string_view method, std::string_view path) const {
  Match match;
  Parameters parameters;
  for (const Route& route : routes_) {
    if (!Covers(route.pattern, path, &parameters)) continue;
    const bool also_head = route.method == "GET";
    if (route.method == method || (also_head && method == "HEAD")) {
      match.route = &route;
      match.parameters = std::move(parameters);
      return match;
    }
    if (!match.allowed.empty()) match.allowed += ", ";
    match.allowed += also_head ? "GET, HEAD" : route.method;
  }
  return match;
}

}  // namespace lightcone::server
