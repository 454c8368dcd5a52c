// The URL of a collector, which is an option. Threads: pure function.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lightcone::server {

// INVALID_ARGUMENT names the option `trace.endpoint` where `url` is no URL of HTTP, or has a user, a password or a
// fragment. An empty one is fine.
absl::Status CheckTraceEndpoint(const std::string& url);

}  // namespace lightcone::server
