// The console's search playground, and the pictures of stored inputs.
// Threads: pure functions over the engine.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/engine.h"
#include "server/http/console_api.h"

namespace lightcone::server {

// The body is JSON with `vector` or `item`, or, under a Content-Type image/..., an image file. The query string gives
// `k`, `ef`, `exact` and `generation`. The answer has the hits, whether their inputs are stored, and the legs: hits,
// uncertainty and way by generation.
absl::StatusOr<nlohmann::json> SearchFromConsole(Engine& engine, const std::string& collection,
                                                 const HttpRequest& request, const CallContext& context);

// The stored input of the item that the query string names (`number` or `name`), as a picture.
absl::StatusOr<HttpAnswer> StoredPicture(Engine& engine, const std::string& collection, const HttpRequest& request);

}  // namespace lightcone::server
