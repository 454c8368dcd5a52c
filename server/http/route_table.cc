#include "server/http/route_table.h"

namespace lightcone::server {
namespace {

bool Covers(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

}  // namespace

RouteTable::Match RouteTable::Find(std::string_view method, std::string_view path) const {
  Match match;
  for (const Route& route : routes_) {
    if (!Covers(route.path, path)) continue;
    const bool also_head = route.method == "GET";
    if (route.method == method || (also_head && method == "HEAD")) {
      match.route = &route;
      return match;
    }
    if (!match.allowed.empty()) match.allowed += ", ";
    match.allowed += also_head ? "GET, HEAD" : route.method;
  }
  return match;
}

}  // namespace lightcone::server
