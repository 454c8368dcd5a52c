// Whether an HTTP request comes from a page of this server, or from no page at all.
// Threads: pure functions.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"

namespace lightcone::server {

// PERMISSION_DENIED that names the header. `headers`: names in lower case. `name`: of this server beside its addresses
// and localhost; may be empty.
absl::Status CheckSameOrigin(const std::map<std::string, std::string>& headers, const std::string& name);

}  // namespace lightcone::server
