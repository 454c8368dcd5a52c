// The one table of the REST room: paths, who may call them, where they run, what answers them. Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/http/route_access.h"
#include "server/rest/rest_call.h"

namespace lightcone::server {

// Where a call runs: beside the calls of gRPC of the same kind.
enum class RestLane { kRead, kWrite, kOperate, kWait };

struct Endpoint {
  std::string_view name;  // "Rest/SearchPoints", as metrics name it
  std::string_view method;
  std::string_view path;  // as Route::pattern
  RouteAccess access;     // scopes that the call needs, and where its collection is named
  RestLane lane;
  bool takes_body;
  absl::StatusOr<std::string> (*answer)(const RestCall& call);
};

std::span<const Endpoint> Endpoints();

// A path of Qdrant's that is refused, and why.
struct RefusedEndpoint {
  std::string_view method, path, why;
};
std::span<const RefusedEndpoint> RefusedEndpoints();

}  // namespace lightcone::server
