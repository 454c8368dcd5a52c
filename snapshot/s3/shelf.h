// The place in a bucket that holds a server's snapshots (docs/reference/formats/snapshots.md). A file is one object for
// all snapshots that have it. A manifest is written last: without it there is no snapshot.
// Threads: one at a time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "snapshot/manifest.h"
#include "snapshot/read.h"
#include "snapshot/s3/client.h"
#include "snapshot/shelf.h"

namespace lightcone {

using S3Objects = std::map<std::string, S3Object>;  // objects by key

// A manifest that a list of the bucket has.
struct S3Listed {
  std::string name;
  absl::Time modified;  // time of its last write by the store's clock
};

// `client` must outlive the shelf.
class S3Shelf {
 public:
  S3Shelf(S3Client& client, std::string prefix);
  S3Client& client() const { return client_; }
  // "s3://BUCKET/PREFIX"
  std::string Text() const;

  std::string ManifestKey(std::string_view name) const;
  // The same for all files of the same path, size and checksum, and of a file whose content these do not tell
  // (TellsContent) for one snapshot alone.
  std::string FileKey(std::string_view snapshot, const SnapshotFile& file) const;
  // Whether it is a key that FileKey gives for a file of this size: nothing else below FilesPrefix is ours.
  bool IsFileKey(const std::string& key, uint64_t bytes) const;
  // Whether it is one for any size.
  bool IsFileKey(const std::string& key) const;
  std::string FilesPrefix() const { return root_ + "files/"; }
  std::string LeasesPrefix() const { return root_ + "leases/"; }

  // By name, ascending. A damaged manifest, or one of a newer format, is in the list as an error.
  absl::StatusOr<std::vector<ShelvedSnapshot>> List() const;
  // All manifests, by name, ascending; none is read.
  absl::StatusOr<std::vector<S3Listed>> ListManifests() const;
  // All objects below FilesPrefix.
  absl::StatusOr<S3Objects> ListFiles() const;
  // DATA_LOSS names the files that are missing in `there` or have another size (at most 16), with their keys.
  absl::Status CheckFiles(const SnapshotManifest& manifest, const S3Objects& there) const;
  // One that was listed. NOT_FOUND when it is gone; DATA_LOSS for damage, and for the manifest of another name;
  // FAILED_PRECONDITION for a newer format.
  absl::StatusOr<SnapshotManifest> ReadListed(const std::string& name) const;
  // NOT_FOUND lists the names there are; DATA_LOSS for damage; FAILED_PRECONDITION for a newer format.
  absl::StatusOr<SnapshotManifest> ReadManifest(const std::string& name) const;
  // Whether this very manifest is there. ALREADY_EXISTS where another one has its name.
  absl::StatusOr<bool> Has(const SnapshotManifest& manifest) const;

  // Where a snapshot's files come from. `seen` gets the number of bytes so far, and may be empty.
  FileSource Files(const std::string& snapshot, const std::function<void(uint64_t)>& seen) const;
  // Reads every byte of a snapshot. Errors as ReadManifest and VerifySnapshotFiles.
  absl::StatusOr<SnapshotManifest> Verify(const std::string& name, const std::function<void(uint64_t)>& seen) const;

 private:
  S3Client& client_;
  const std::string prefix_;
  const std::string root_;  // the prefix and a slash, or nothing
};

}  // namespace lightcone
