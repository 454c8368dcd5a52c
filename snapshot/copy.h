// Copies of snapshots in another folder, which share the files that they have in common.
// Threads: pure functions; one caller a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "snapshot/manifest.h"

namespace lightcone {

struct SnapshotCopy {
  SnapshotManifest manifest;
  uint64_t copied_files = 0, copied_bytes = 0;
  uint64_t shared_files = 0, shared_bytes = 0;  // those that a snapshot in `to` had already
};

// Copies the snapshot of folder `from` to TO/NAME, a snapshot like any other. A file that a whole snapshot in `to` has
// with the same path, size and checksum is linked; its bytes are not read. ALREADY_EXISTS where TO/NAME is there;
// DATA_LOSS names what is damaged in `from`; RESOURCE_EXHAUSTED on a full disk, with nothing left behind.
absl::StatusOr<SnapshotCopy> CopySnapshot(const std::string& from, const std::string& to,
                                          const std::function<bool()>& cancelled = {});

}  // namespace lightcone
