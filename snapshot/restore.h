// A snapshot becomes a data folder, without a server.
// Threads: pure functions; two callers must not restore into the same folder.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "snapshot/manifest.h"

namespace lightcone {

// Where a restore takes a snapshot from. `check` finds the faults that can be found before anything is written;
// `unpack` writes the files of that manifest below a folder, with sizes and checksums compared.
struct RestoreSource {
  std::function<absl::StatusOr<SnapshotManifest>()> check;
  std::function<absl::Status(const SnapshotManifest& manifest, const std::string& folder)> unpack;
};

// `data_folder` is missing or empty. The files are written beside the data folder, and renamed at the end: whoever is
// killed leaves `data_folder` as it was, or whole. FAILED_PRECONDITION for a data folder that holds something;
// RESOURCE_EXHAUSTED on a full disk, with nothing left behind; the errors of the source.
absl::StatusOr<SnapshotManifest> RestoreFrom(const RestoreSource& source, const std::string& data_folder);

// The same of a snapshot's folder or its archive. All of it is verified before anything is written. FAILED_PRECONDITION
// also for a newer format; DATA_LOSS names what is damaged.
absl::StatusOr<SnapshotManifest> RestoreSnapshot(const std::string& source, const std::string& data_folder,
                                                 const std::function<bool()>& cancelled = {});

}  // namespace lightcone
