// Filters as Qdrant writes them, as the engine's. Threads: pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/engine/filter/filter.h"
#include "server/rest/fields.h"
#include "server/rest/rest_call.h"

namespace lightcone::server {

// A path into payloads: "a.b[].c" is "a.b.c" here, where a path goes through arrays by any element. UNIMPLEMENTED for
// an index in brackets.
absl::StatusOr<std::string> PayloadPathFrom(const std::string& path, std::string_view field);

// The generation that a vector's name stands for, or an error that names `field`; 0: any, as the name is empty.
using VectorNames = absl::FunctionRef<absl::StatusOr<uint32_t>(const std::string& name, const std::string& field)>;

// INVALID_ARGUMENT and UNIMPLEMENTED name the condition: "filter.must[0].range".
absl::StatusOr<FilterNode> PointFilterFrom(const nlohmann::json& filter, VectorNames names, const std::string& path);
// That of the member "filter" of a call's body; nothing where it is absent.
absl::StatusOr<std::optional<FilterNode>> PointFilterOf(const RestCall& call, const Fields& body);

}  // namespace lightcone::server
