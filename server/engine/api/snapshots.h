// Snapshots of a server as its callers see them: store, segments and encoders at one moment, below one folder.
// Threads: every method is safe to call concurrently; an upload or a download belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/api/types.h"
#include "snapshot/archive.h"
#include "snapshot/manifest.h"

namespace lightcone::server {

struct BackupOptions {
  std::string folder;                           // folder of the snapshots; empty: DATA/snapshots
  absl::Duration every = absl::ZeroDuration();  // time between snapshots of the schedule; 0: there is none
  int keep = 7;                                 // snapshots of the schedule that are kept, 1 at least
};

struct SnapshotStatus {
  SnapshotManifest manifest;           // only its name where `damage` is an error
  absl::Status damage;                 // why it cannot be read
  std::optional<absl::Time> verified;  // when all bytes were last found to be good
  std::string folder;
};

struct SnapshotFigures {
  uint64_t count = 0, bytes = 0;              // whole snapshots, and the sizes of their files
  uint64_t failures_total = 0;                // snapshots that could not be made, or were found damaged
  std::optional<absl::Time> newest_verified;  // time of the newest snapshot whose bytes were all found to be good
};

// Takes an archive. Destroyed before Finish was OK, it leaves nothing behind.
class SnapshotUpload {
 public:
  virtual ~SnapshotUpload() = default;
  // Errors as ArchiveReader::Append; ALREADY_EXISTS for a name in use; RESOURCE_EXHAUSTED where the disk has too little
  // room for what the manifest names.
  virtual absl::Status Append(std::string_view bytes) = 0;
  virtual absl::StatusOr<SnapshotStatus> Finish() = 0;
};

class Snapshots {
 public:
  virtual ~Snapshots() = default;
  // Takes the options, removes what a killed process left in the folder, and begins the schedule. Called once at most,
  // before other calls; without it the defaults hold.
  virtual absl::Status Start(const BackupOptions& options) = 0;
  // An empty name is made of the present time. The same request_id again gives the same snapshot. ALREADY_EXISTS for a
  // name in use; FAILED_PRECONDITION while this name is being worked on; RESOURCE_EXHAUSTED on a full disk.
  virtual absl::StatusOr<SnapshotStatus> Create(const std::string& name, const std::string& request_id,
                                                const CallContext& context) = 0;
  virtual absl::StatusOr<std::vector<SnapshotStatus>> List() = 0;
  // NOT_FOUND lists the names there are.
  virtual absl::Status Delete(const std::string& name) = 0;
  // Reads every byte. DATA_LOSS names each damaged or missing file.
  virtual absl::StatusOr<SnapshotStatus> Verify(const std::string& name, const CallContext& context) = 0;
  virtual absl::StatusOr<std::unique_ptr<ArchiveWriter>> Download(const std::string& name) = 0;
  // `name` empty: the one in the archive.
  virtual absl::StatusOr<std::unique_ptr<SnapshotUpload>> Upload(const std::string& name) = 0;
  virtual SnapshotFigures Figures() = 0;
};

}  // namespace lightcone::server
