// What takes the files of a snapshot, one after the other, as they are read.
// Threads: one at a time.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "snapshot/manifest.h"

namespace lightcone {

class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  // Begins the next file of the manifest. True in *skip: its bytes are not needed.
  virtual absl::Status Open(const SnapshotFile& file, bool* skip) = 0;
  virtual absl::Status Write(std::string_view bytes) = 0;
  // The file is whole: size and checksum are those of the manifest.
  virtual absl::Status Close() = 0;
};

// Takes nothing: the reader's comparison is all that is wanted.
class NoSink final : public SnapshotSink {
 public:
  absl::Status Open(const SnapshotFile&, bool*) override { return absl::OkStatus(); }
  absl::Status Write(std::string_view) override { return absl::OkStatus(); }
  absl::Status Close() override { return absl::OkStatus(); }
};

}  // namespace lightcone
