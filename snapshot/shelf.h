// The folder that holds a server's snapshots, each in a folder of its name. What is made, or being deleted, has another
// name, which begins with a dot; a rename is what makes a snapshot whole, and what ends it.
// Threads: safe; two callers must not work on the same name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "snapshot/manifest.h"

namespace lightcone {

struct ShelvedSnapshot {
  std::string name;
  absl::StatusOr<SnapshotManifest> manifest;  // an error: damaged, or of a newer format
  std::optional<int64_t> verified_us;         // when every byte was last found to be good
};

// Whether a caller brought the snapshot of this folder. Also true where the file system does not tell.
bool IsUploadedSnapshot(const std::string& folder);

class SnapshotShelf {
 public:
  explicit SnapshotShelf(std::string folder) : folder_(std::move(folder)) {}
  const std::string& folder() const { return folder_; }

  // By name, ascending. Empty where the folder is missing.
  absl::StatusOr<std::vector<ShelvedSnapshot>> List() const;
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  // NOT_FOUND lists the names there are.
  absl::Status CheckExists(const std::string& name) const;
  // ALREADY_EXISTS where there is a snapshot of this name.
  absl::Status CheckNew(const std::string& name) const;

  // An empty folder in which a snapshot is made. Removes what an earlier try left.
  absl::StatusOr<std::string> Begin(const std::string& name) const;
  // Writes the manifest, makes everything durable and gives the snapshot its name.
  absl::Status Commit(const std::string& name, const std::string& manifest_text) const;
  // Marks what Begin made as a snapshot that a caller brought, durably. Called before Commit: no kill can leave the
  // snapshot without its mark.
  absl::Status MarkUploaded(const std::string& name) const;
  // Removes what Begin made.
  void Abandon(const std::string& name) const;
  // Renames it out of sight, durably, then removes it. NOT_FOUND as CheckExists.
  absl::Status Delete(const std::string& name) const;
  absl::Status SetVerified(const std::string& name, int64_t time_us) const;
  // Removes what processes left that were killed while they made or deleted a snapshot.
  absl::Status RemoveLeftovers() const;

 private:
  std::string PartialOf(const std::string& name) const;

  std::string folder_;
};

}  // namespace lightcone
