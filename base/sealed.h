// JSON files with a checksum of their content, written atomically. No torch here. Threads: safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace lightcone {

// Writes {"crc32c": checksum of the text of `content`, "content": ...}. The same content gives the same bytes.
absl::Status WriteSealed(const std::string& path, const nlohmann::ordered_json& content);

// NOT_FOUND for a missing file; DATA_LOSS names a file that WriteSealed did not write.
absl::StatusOr<nlohmann::ordered_json> ReadSealed(const std::string& path);

}  // namespace lightcone
