// Writes the files of a snapshot below a folder, durably.
// Threads: one at a time.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "snapshot/sink.h"

namespace lightcone {

// `folder` exists. Files are made anew, for their owner alone; each is fsynced when it is whole.
class FolderSink : public SnapshotSink {
 public:
  explicit FolderSink(std::string folder) : folder_(std::move(folder)) {}
  ~FolderSink() override;
  absl::Status Open(const SnapshotFile& file, bool* skip) override;
  absl::Status Write(std::string_view bytes) override;
  absl::Status Close() override;

 protected:
  // Makes the folder of the file, and names its place.
  absl::StatusOr<std::string> Prepare(const SnapshotFile& file);

 private:
  const std::string folder_;
  std::string path_;
  int fd_ = -1;
};

// Makes a folder, and those above it, that its owner alone may enter: it will hold all data of a server.
absl::Status MakePrivateFolder(const std::string& folder);

// Fsyncs a folder and every folder below it.
absl::Status SyncFolders(const std::string& folder);

}  // namespace lightcone
