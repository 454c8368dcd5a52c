// Keys of endpoints. A key goes into one header of one request and nowhere else.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/collection/endpoint_manifest.h"

namespace lightcone::server {

// Read anew at each call, so that a key can be replaced while the server runs; empty: the endpoint wants none. Errors
// name the file or the variable, never what is in it: FAILED_PRECONDITION: there is none, or no key is in it.
// Threads: safe, while nobody changes the environment.
absl::StatusOr<std::string> ReadEndpointKey(const EndpointManifest& endpoint, const EndpointOptions& options);

}  // namespace lightcone::server
