// JSON files with a checksum of their content, written atomically. No torch here. Threads: safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace lightcone {

// Writes {"crc32c": checksum of the text of `content`, "content": ...}. The same content gives the same bytes.
absl::Status WriteSealed(const std::string& path, const nlohmann::ordered_json& content);

// NOT_FOUND for a missing file; DATA_LOSS names a file that WriteSealed did not write.
absl::StatusOr<nlohmann::ordered_json> ReadSealed(const std::string& path);

// The same of text in memory; `path` names it in errors.
std::string SealedText(const nlohmann::ordered_json& content);
absl::StatusOr<nlohmann::ordered_json> ParseSealed(std::string_view text, std::string_view path);

}  // namespace lightcone
