// The state file of an import: how far it is, and of what. Threads: all functions are safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/formats/rows.h"

namespace lightcone::cli {

// Rows are counted in int64, and an import adds its --limit to where it begins.
inline constexpr int64_t kImportRowMax = int64_t{1} << 62;

struct ImportState {
  int64_t next_row = 0;  // the row at which the import goes on, 0 .. kImportRowMax
  std::string collection;
  std::string file;          // name for people: the rows tell an import, not the name
  uint32_t generation = 0;   // generation as given; 0: the active one
  uint32_t rows_crc32c = 0;  // AddToChecksum of the rows before next_row, from row 0
};

std::string ImportStateText(const ImportState& state);

// DATA_LOSS names `what`, the file's path: no state, or one of an older version, which does not say of what it is.
absl::StatusOr<ImportState> ParseImportState(std::string_view text, std::string_view what);

// FAILED_PRECONDITION when the file `what` holds the state of an import into another collection or generation.
absl::Status CheckSameTarget(const ImportState& state, std::string_view collection, uint32_t generation,
                             std::string_view what);
// FAILED_PRECONDITION: the rows of `file` before next_row are not those that were imported.
absl::Status OtherRows(const ImportState& state, std::string_view file, std::string_view what);

// Continues a checksum of rows by one: its id, generation, payload and vector.
uint32_t AddToChecksum(const Row& row, uint32_t checksum);

}  // namespace lightcone::cli
