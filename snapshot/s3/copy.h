// Copies of snapshots to a bucket and back, with bytes in proportion to what the other side lacks.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "snapshot/copy.h"
#include "snapshot/s3/shelf.h"

namespace lightcone {

struct S3CopyOptions {
  uint64_t part_bytes = uint64_t{64} << 20;  // largest body of a request, which is held in memory
  std::function<void(uint64_t)> seen = {};   // Gets the bytes so far, with those that were there already.
};

// Copies the snapshot of folder `from`. A file whose object is there is not read and not sent. A file is compared with
// its checksum before its object appears. An interrupted copy leaves no snapshot, and the next one goes on with the
// files that it left. A snapshot that is there already gets the files that it lacks. ALREADY_EXISTS when another
// snapshot has its name; ABORTED beside a prune; DATA_LOSS names what is damaged in `from`.
absl::StatusOr<SnapshotCopy> CopySnapshotToS3(const std::string& from, const S3Shelf& shelf,
                                              const S3CopyOptions& options = {});

// As RestoreFrom. Before anything is written, the manifest is read, and every file is looked up with its size.
// Checksums are compared while the files come: whatever is damaged ends the restore, and leaves the data folder as it
// was.
absl::StatusOr<SnapshotManifest> RestoreSnapshotFromS3(const S3Shelf& shelf, const std::string& name,
                                                       const std::string& data_folder,
                                                       const std::function<void(uint64_t)>& seen = {});

}  // namespace lightcone
