// The state file of an import: how far it is. Threads: all functions are safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lightcone::cli {

// Rows are counted in int64, and an import adds its --limit to where it begins.
inline constexpr int64_t kImportRowMax = int64_t{1} << 62;

std::string ImportStateText(int64_t next_row);

// The row at which the import goes on, 0 .. kImportRowMax. DATA_LOSS names `what`, the file's path.
absl::StatusOr<int64_t> ParseImportState(std::string_view text, std::string_view what);

}  // namespace lightcone::cli
