// Reads every byte of a snapshot and compares it with the manifest.
// Threads: pure functions; a FileCheck belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "snapshot/manifest.h"
#include "snapshot/sink.h"

namespace lightcone {

// The bytes of one file, held against its entry.
class FileCheck {
 public:
  explicit FileCheck(const SnapshotFile& file) : file_(file) {}
  void Add(std::string_view bytes);
  // DATA_LOSS names the file, and whether it is its size or its content that differs.
  absl::Status Finish() const;

 private:
  const SnapshotFile& file_;
  uint64_t bytes_ = 0;
  uint32_t crc32c_ = 0;
};

// The checksum of a file with its size. Errors as ReadFile.
absl::StatusOr<SnapshotFile> ChecksumFile(const std::string& path);

// Hands the bytes of one file to `take`, piece by piece. NOT_FOUND when the file is missing; the errors of `take`.
using TakeBytes = std::function<absl::Status(std::string_view bytes)>;
using FileBytes = std::function<absl::Status(const SnapshotFile& file, const TakeBytes& take)>;

// Where a snapshot's files are read from.
struct FileSource {
  FileBytes bytes;
  // Set for a store's objects: gives the key that faults name. An error of `bytes` other than NOT_FOUND and DATA_LOSS
  // then says nothing of one file: a refusal may be of all.
  std::function<std::string(const SnapshotFile& file)> key = {};
};

// Hands every file to `sink`, with size and checksum compared. DATA_LOSS names the first file that differs or is
// missing; CANCELLED soon after `cancelled` says so; the errors of the source and of the sink.
absl::Status ReadSnapshotFiles(const FileSource& source, const SnapshotManifest& manifest, SnapshotSink& sink,
                               const std::function<bool()>& cancelled);
// Reads every file. DATA_LOSS names every file that differs or is missing (at most 16), with its fault. An error that
// says nothing of the files, like a lost connection, ends the reading.
absl::Status VerifySnapshotFiles(const FileSource& source, const SnapshotManifest& manifest,
                                 const std::function<bool()>& cancelled);

// The same of a folder.
absl::Status ReadSnapshot(const std::string& folder, const SnapshotManifest& manifest, SnapshotSink& sink,
                          const std::function<bool()>& cancelled = {});

// Reads the manifest, then as VerifySnapshotFiles.
absl::StatusOr<SnapshotManifest> VerifySnapshot(const std::string& folder, const std::function<bool()>& cancelled = {});

}  // namespace lightcone
