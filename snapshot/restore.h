// A snapshot becomes a data folder, without a server.
// Threads: pure functions; two callers must not restore into the same folder.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "snapshot/manifest.h"

namespace lightcone {

// `source` is a snapshot's folder or its archive; `data_folder` is missing or empty. All of the source is verified
// before anything is written. The files are then written beside the data folder, and renamed at the end: whoever is
// killed leaves `data_folder` as it was, or whole. FAILED_PRECONDITION for a data folder that holds something, and for
// a newer format; DATA_LOSS names what is damaged; RESOURCE_EXHAUSTED on a full disk, with nothing left behind.
absl::StatusOr<SnapshotManifest> RestoreSnapshot(const std::string& source, const std::string& data_folder,
                                                 const std::function<bool()>& cancelled = {});

}  // namespace lightcone
