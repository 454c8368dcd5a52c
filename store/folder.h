// A store's folder: the marker file LIGHTCONE says that it is ours and of which format. Thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace lightcone {

// The layout of keys, values and column families. A program reads this one and refuses every other.
inline constexpr uint32_t kStoreFormat = 1;
inline constexpr char kMarkerName[] = "LIGHTCONE";

// Makes `folder` ready for opening: creates it and its marker when it is missing or empty. FAILED_PRECONDITION when it
// holds something else or is of a newer format (says which version is needed).
absl::Status PrepareStoreFolder(const std::string& folder);

// Writes the marker, durably.
absl::Status WriteMarker(const std::string& folder);

// The error of a store of another format than ours.
absl::Status WrongFormat(const std::string& folder, uint64_t format);

}  // namespace lightcone
