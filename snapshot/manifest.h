// What a snapshot holds: its manifest (docs/reference/formats/snapshots.md), a JSON file with a checksum of its
// content. A folder with a whole manifest is a snapshot; the manifest is written last. Threads: plain values and pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

inline constexpr uint64_t kSnapshotFormat = 1;
inline constexpr char kSnapshotManifestName[] = "manifest.json";
inline constexpr char kSnapshotDataName[] = "data";  // folder of the files, beside the manifest
inline constexpr int64_t kSnapshotManifestBytesMax = int64_t{64} << 20;
inline constexpr size_t kSnapshotPathBytesMax = 90;  // length of a file's path, as an archive's header can name it

struct SnapshotFile {
  std::string path;  // below the snapshot's data folder, and below a server's data folder
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

struct SnapshotCollection {
  std::string name;
  uint64_t items = 0;
  uint64_t sequence = 0;  // sequence of the last write
  uint32_t active_generation = 0;
};

// What a request with an id asked for: the same id with another content is another request.
struct AskedSnapshot {
  std::string name;                      // empty: a name of the present time
  std::vector<std::string> collections;  // names or aliases, ascending; empty: the whole server

  bool operator==(const AskedSnapshot&) const = default;
};

struct SnapshotManifest {
  std::string name;
  std::string version;                 // version of the server that made it
  std::string request_id;              // request that made it, or empty
  std::optional<AskedSnapshot> asked;  // content of that request; nullopt: not known
  bool scheduled = false;              // made by the schedule, whose retention may delete it
  uint64_t sequence = 0;               // the store's number of the last change
  int64_t time_us = 0;                 // microseconds since 1970, UTC
  std::vector<SnapshotCollection> collections;
  std::vector<SnapshotFile> files;  // ascending by path

  uint64_t Bytes() const;  // sum of the files' sizes
  // nullptr when there is no such file.
  const SnapshotFile* File(std::string_view path) const;
};

// INVALID_ARGUMENT names what is wrong with a snapshot's name: 1 .. 128 of [A-Za-z0-9._-], no dot first.
absl::Status CheckSnapshotName(std::string_view name);

std::string EncodeSnapshotManifest(const SnapshotManifest& manifest);
// DATA_LOSS for damage, FAILED_PRECONDITION for a newer format; both name `place`. A path that leads out of the data
// folder is damage.
absl::StatusOr<SnapshotManifest> DecodeSnapshotManifest(std::string_view text, std::string_view place);

// Of a snapshot's folder. DATA_LOSS when there is no manifest: the snapshot was cut short.
absl::StatusOr<SnapshotManifest> ReadSnapshotManifest(const std::string& folder);

}  // namespace lightcone
