// Filters as Qdrant writes them, as the engine's. Threads: pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/engine/filter/filter.h"
#include "server/rest/fields.h"

namespace lightcone::server {

// A path into payloads: "a.b[].c" is "a.b.c" here, where a path goes through arrays by any element. UNIMPLEMENTED for
// an index in brackets.
absl::StatusOr<std::string> PayloadPathFrom(const std::string& path, std::string_view field);

// INVALID_ARGUMENT and UNIMPLEMENTED name the condition: "filter.must[0].range".
absl::StatusOr<FilterNode> PointFilterFrom(const nlohmann::json& filter, const std::string& path);
// That of the member "filter"; nothing where it is absent.
absl::StatusOr<std::optional<FilterNode>> PointFilterOf(const Fields& body);

}  // namespace lightcone::server
