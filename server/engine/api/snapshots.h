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

struct CreateSnapshotCall {
  std::string name;                           // empty: a name of the present time
  std::string request_id = {};                // the same id again gives the same snapshot; empty: a new one each time
  std::vector<std::string> collections = {};  // names or aliases of what it is to hold; empty: the whole server
};

// Brings a collection of a snapshot into the running server.
struct RestoreCollectionCall {
  std::string request_id = {};  // empty: the call is not idempotent
  std::string snapshot = {};    // name of one of the server's snapshots
  std::string collection = {};  // name of the collection in the snapshot; an alias does not do
  std::string name = {};        // new name of the collection; empty: the same name
};

struct RestoredCollection {
  std::string name;
  uint64_t items = 0;
  uint64_t sequence = 0;  // sequence of the last write
  uint32_t active_generation = 0;
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
  // ALREADY_EXISTS for a name in use, and for a request id of another content; FAILED_PRECONDITION while this name is
  // being worked on; NOT_FOUND for a collection that is not there; RESOURCE_EXHAUSTED on a full disk, and at once, with
  // a time of the next try, while another snapshot is made; ABORTED when a collection or an encoder of the snapshot
  // went away meanwhile; CANCELLED. Of chosen collections, a damaged row is DATA_LOSS.
  virtual absl::StatusOr<SnapshotStatus> Create(const CreateSnapshotCall& call, const CallContext& context) = 0;
  // Searches and writes go on meanwhile; one restore at a time. The collection is there as a whole or not at all,
  // whatever ends the call or the process. ALREADY_EXISTS for a name in use, also of an alias; NOT_FOUND for a snapshot
  // or a collection that is not there; DATA_LOSS for damage, which is looked for before anything is written;
  // RESOURCE_EXHAUSTED where the disk has too little room, or the memory for the index, and at once, with a time of the
  // next try, while another collection is restored; FAILED_PRECONDITION for an encoder of an uploaded snapshot where
  // EngineOptions::encoder_uploads is false, and while the snapshot is in use; ABORTED when the same request ended
  // meanwhile: the call again has its answer; CANCELLED. The aliases and the jobs of the collection stay behind.
  virtual absl::StatusOr<RestoredCollection> RestoreCollection(const RestoreCollectionCall& call,
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
