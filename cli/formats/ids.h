// Item ids as people type them. Threads: all functions are safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lightcone/v1/types.pb.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {

// Decimal digits without a leading zero that fit into uint64 are a number; anything else is a name. A name that looks
// like a number goes in double quotes: "42". INVALID_ARGUMENT for an empty id, a quoted one that is no JSON text, and
// one that is no UTF-8.
absl::StatusOr<v1::ItemId> ParseItemId(std::string_view text);

// INVALID_ARGUMENT names `field` and the first byte that is no UTF-8.
absl::Status CheckUtf8(std::string_view text, std::string_view field);

// The text that ParseItemId reads back.
std::string ItemIdText(const v1::ItemId& id);

// As JSON: a string or a number. The reverse takes nothing else (INVALID_ARGUMENT, field "id").
nlohmann::json ItemIdJson(const v1::ItemId& id);
absl::StatusOr<v1::ItemId> ItemIdFromJson(const nlohmann::json& json);

}  // namespace lightcone::cli
