// JSON files that an experiment writes for itself and reads again: atomic, with a checksum of what they say. No torch
// here. Threads: safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace lightcone {

// {"crc32c": of the text of `content`, "content": ...}; the same content gives the same bytes.
absl::Status WriteSealed(const std::string& path, const nlohmann::ordered_json& content);

// NOT_FOUND when there is no such file; DATA_LOSS naming it when it is not what WriteSealed wrote.
absl::StatusOr<nlohmann::ordered_json> ReadSealed(const std::string& path);

// The error of a file that is only kept so as not to compute it again, with what a user can do.
absl::Status Removable(const absl::Status& status);

}  // namespace lightcone
