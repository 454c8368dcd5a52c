// The manifest of a model from elsewhere, of which only the embeddings are known:
// {"dimension": .., "curvature": .., "clip_radius": .., "metric": .., "method": .., "compatible_prefix": ..,
// "model": .., "revision": .., "endpoint": {..}}; other members are kept, not read.
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "geometry/metric.h"
#include "nlohmann/json_fwd.hpp"
#include "server/engine/collection/endpoint_manifest.h"

namespace lightcone::server {

struct ExternalManifest {
  Space space;
  int compatible_prefix = 0;  // 2 .. dimension, or 0: all
  std::string method;         // "external" unless it says otherwise
  std::string model;          // name of the model; the endpoint's unless it says otherwise; empty: not said
  std::string revision;       // empty: not said
  std::optional<EndpointManifest> endpoint;  // none: callers bring the vectors
};

// `json` is an object. "metric" defaults to the collection's; "curvature" and "clip_radius" are required under the
// Lorentz metric and left out under the others. INVALID_ARGUMENT names the member, its value and what is allowed.
absl::StatusOr<ExternalManifest> ReadExternalManifest(const nlohmann::json& json, Metric collection_metric);

}  // namespace lightcone::server
