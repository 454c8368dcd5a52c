// Strict mode as Qdrant's clients name its members: `strict_mode_config`.
// Threads: pure functions.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/strict_mode.h"
#include "server/rest/fields.h"

namespace lightcone::server::rest {

// What `body` has as `strict_mode_config`; nullopt: nothing. INVALID_ARGUMENT names a member whose value is wrong,
// UNIMPLEMENTED one that there is not.
absl::StatusOr<std::optional<StrictMode>> StrictModeFrom(const Fields& body);

// The members that are set.
nlohmann::json JsonOf(const StrictMode& strict);

}  // namespace lightcone::server::rest
