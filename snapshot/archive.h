// A snapshot as one stream of bytes: a POSIX tar archive of manifest.json, and the files in its order below data/.
// Threads: each object belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "snapshot/manifest.h"
#include "snapshot/read.h"
#include "snapshot/sink.h"

namespace lightcone {

// Makes the archive of a snapshot in pieces of at most 2 MiB and a header.
class ArchiveWriter {
 public:
  // Errors as ReadSnapshotManifest.
  static absl::StatusOr<std::unique_ptr<ArchiveWriter>> Open(const std::string& folder);
  ~ArchiveWriter();
  // The next piece; empty at the end. DATA_LOSS for a file that differs from the manifest.
  absl::StatusOr<std::string> Next();
  const SnapshotManifest& manifest() const { return manifest_; }

 private:
  ArchiveWriter(std::string folder, SnapshotManifest manifest, std::string head);
  absl::Status OpenFile();

  const std::string folder_;
  const SnapshotManifest manifest_;
  std::string ready_;  // bytes that come before everything else
  size_t next_ = 0;    // index of the file that comes next
  std::optional<FileCheck> check_;
  int fd_ = -1;
  bool ended_ = false;
};

// Takes the bytes of an archive as they come, and hands its files to a sink. Any bytes give files that the manifest
// names, with their checksums compared, or an error.
class ArchiveReader {
 public:
  // Makes the sink once the manifest is known. An error ends the reading.
  using MakeSink = std::function<absl::StatusOr<std::unique_ptr<SnapshotSink>>(const SnapshotManifest& manifest,
                                                                               std::string_view manifest_text)>;
  // `place` names the archive in errors.
  ArchiveReader(std::string place, MakeSink make_sink) : place_(std::move(place)), make_sink_(std::move(make_sink)) {}

  // DATA_LOSS for bytes that are no archive of a snapshot, or differ from its manifest; FAILED_PRECONDITION for a newer
  // format; the sink's errors.
  absl::Status Append(std::string_view bytes);
  // DATA_LOSS when the archive was cut short.
  absl::StatusOr<SnapshotManifest> Finish();

 private:
  absl::Status TakeHeader();
  absl::Status BeginBody();
  absl::Status TakeBody(std::string_view bytes);
  absl::Status EndBody();
  absl::Status Damaged(std::string_view what) const;
  bool in_manifest() const { return !manifest_.has_value(); }

  const std::string place_;
  const MakeSink make_sink_;
  std::unique_ptr<SnapshotSink> sink_;
  std::optional<SnapshotManifest> manifest_;
  std::string manifest_text_;
  std::string header_;         // bytes of the header so far
  size_t next_ = 0;            // index of the file under way
  uint64_t body_left_ = 0;     // bytes of the file that are still to come
  uint64_t padding_left_ = 0;  // bytes to pass over behind it
  std::optional<FileCheck> check_;
  bool ended_ = false;
};

}  // namespace lightcone
