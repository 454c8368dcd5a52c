// Whether an HTTP request comes from a page of this server, or from no page at all. A request needs the header
// X-Lightcone-Console, which only pages of the same origin may send. Its Host must be an address, localhost or the
// server's name (host_names.h): a foreign name that resolves here is refused. Origin and Sec-Fetch-Site, if any, must
// be this server's. Threads: pure functions.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "server/http/host_names.h"

namespace lightcone::server {

// PERMISSION_DENIED names the header. `headers` have names in lower case.
absl::Status CheckSameOrigin(const std::map<std::string, std::string>& headers, const HostNames& names);

}  // namespace lightcone::server
