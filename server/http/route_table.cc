#include "server/http/route_table.h"

#include <algorithm>

namespace lightcone::server {
namespace {

// The text up to the next slash, which is taken off the front of `path` with the slash.
std::string_view TakePart(std::string_view* path) {
  const size_t end = path->find('/');
  const std::string_view part = path->substr(0, end);
  path->remove_prefix(end == std::string_view::npos ? path->size() : end + 1);
  return part;
}

bool IsParameter(std::string_view part) { return part.starts_with('{') && part.ends_with('}'); }

bool Covers(std::string_view pattern, std::string_view path) {
  if (pattern.find('{') != std::string_view::npos) return PathParameters(pattern, path).has_value();
  if (!pattern.ends_with("/*")) return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

}  // namespace

std::optional<std::map<std::string, std::string>> PathParameters(std::string_view pattern, std::string_view path) {
  std::map<std::string, std::string> found;
  if (std::count(pattern.begin(), pattern.end(), '/') != std::count(path.begin(), path.end(), '/')) return std::nullopt;
  while (!pattern.empty()) {
    const std::string_view part = TakePart(&pattern), text = TakePart(&path);
    if (!IsParameter(part)) {
      if (part != text) return std::nullopt;
    } else if (text.empty()) {
      return std::nullopt;
    } else {
      found.emplace(part.substr(1, part.size() - 2), text);
    }
  }
  if (!path.empty()) return std::nullopt;
  return found;
}

RouteTable::Match RouteTable::Find(const HttpRequest& request) const {
  Match match;
  for (const Route& route : routes_) {
    if (!Covers(route.path, request.path) || (route.takes && !route.takes(request))) continue;
    const bool also_head = route.method == "GET";
    if (route.method == request.method || (also_head && request.method == "HEAD")) {
      match.route = &route;
      return match;
    }
    if (!match.allowed.empty()) match.allowed += ", ";
    match.allowed += also_head ? "GET, HEAD" : route.method;
  }
  return match;
}

}  // namespace lightcone::server
