// A store's folder. Its marker file LIGHTCONE names the format and tells it from other folders. Threads: safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lightcone {

// The layout of keys, values and column families. A program reads this one and refuses every other.
inline constexpr uint32_t kStoreFormat = 1;
inline constexpr char kMarkerName[] = "LIGHTCONE";

// Makes `folder` ready for opening. A missing or empty folder gets its marker. FAILED_PRECONDITION when the folder
// holds something else or has a newer format; the error names the needed version.
absl::Status PrepareStoreFolder(const std::string& folder);

// What to do about a damaged store, for the end of an error's message.
inline constexpr std::string_view kDamagedAdvice =
    "; restore a backup, or save what can be read by `lightcone repair`, or lose it and start with --store-damage "
    "accept";

// RocksDB takes a folder without its file CURRENT for an empty database, and removes tables that it does not know.
// DATA_LOSS where tables are there and the file is not. RocksDB also drops the end of a manifest from a record on whose
// length is too large: DATA_LOSS where one flipped bit makes it so.
absl::Status CheckCurrentFile(const std::string& folder);

// Writes the marker, durably.
absl::Status WriteMarker(const std::string& folder);

// The error of a store of another format than ours.
absl::Status WrongFormat(const std::string& folder, uint64_t format);

}  // namespace lightcone
