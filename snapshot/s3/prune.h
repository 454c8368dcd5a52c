// Retention in a bucket: the newest snapshots stay, and so does every file that one of them names.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "snapshot/s3/shelf.h"

namespace lightcone {

struct S3PruneOptions {
  size_t keep = 1;  // newest snapshots that stay, at least 1
  // A younger file stays although no snapshot names it: a copy that was interrupted goes on with it.
  absl::Duration age_min = absl::Hours(24);
};

struct S3Pruned {
  std::vector<std::string> kept, deleted;  // names of snapshots, newest first
  uint64_t deleted_files = 0, deleted_bytes = 0;
  std::string
      uploads_left;  // reason why uploads in parts may be left: the store's refusal to list or end them; or empty
};

// Deletes the oldest snapshots, then files that no snapshot names, then uploads in parts that nobody ended. The newest
// is the one whose manifest the bucket got last, by the clock of the store; at the same time, the manifests' own times
// decide. An object whose key is not that of a file stays. Whoever is killed has deleted whole snapshots, and the next
// prune goes on. ABORTED beside a copy or another prune. Before anything is deleted: FAILED_PRECONDITION where there is
// no snapshot; DATA_LOSS or FAILED_PRECONDITION when a manifest cannot be read, since nobody knows which files it
// names; DATA_LOSS when a snapshot that would stay lacks a file. An error says how much was deleted before it.
// REQUIRES: options.keep >= 1.
absl::StatusOr<S3Pruned> PruneS3(const S3Shelf& shelf, const S3PruneOptions& options);

}  // namespace lightcone
