#include "snapshot/s3/shelf.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "snapshot/identity.h"

namespace lightcone {
namespace {

constexpr std::string_view kSnapshots = "snapshots/";
constexpr size_t kFaultsMax = 16;  // faults that one error names

}  // namespace

S3Shelf::S3Shelf(S3Client& client, std::string prefix)
    : client_(client), prefix_(std::move(prefix)), root_(prefix_.empty() ? "" : prefix_ + "/") {}

std::string S3Shelf::Text() const { return S3Location{client_.options().bucket, prefix_}.Text(); }

std::string S3Shelf::ManifestKey(std::string_view name) const {
  return StrCat(root_, kSnapshots, name, "/", kSnapshotManifestName);
}

std::string S3Shelf::FileKey(std::string_view snapshot, const SnapshotFile& file) const {
  const std::string key = StrCat(FilesPrefix(), file.path, "/", file.bytes, "-", absl::StrFormat("%08x", file.crc32c));
  return TellsContent(file) ? key : StrCat(key, "-", snapshot);
}

bool S3Shelf::IsFileKey(const std::string& key, uint64_t bytes) const {
  const std::string prefix = FilesPrefix();
  const size_t slash = key.rfind('/');
  if (!key.starts_with(prefix) || slash <= prefix.size()) return false;
  SnapshotFile file{key.substr(prefix.size(), slash - prefix.size()), bytes, 0};
  const size_t dash = std::min(key.find('-', slash), key.size() - 1);
  const char* const end = key.data() + key.size();
  const auto read = std::from_chars(key.data() + dash + 1, end, file.crc32c, 16);
  const std::string snapshot = read.ptr != end && *read.ptr == '-' ? std::string(read.ptr + 1, end) : "";
  return read.ec == std::errc() && (snapshot.empty() || CheckSnapshotName(snapshot).ok()) &&
         FileKey(snapshot, file) == key;
}

bool S3Shelf::IsFileKey(const std::string& key) const {
  uint64_t bytes = 0;
  const size_t name = key.rfind('/') + 1;  // 0 where there is no slash
  const auto read = std::from_chars(key.data() + name, key.data() + key.size(), bytes);
  return read.ec == std::errc() && IsFileKey(key, bytes);
}

absl::StatusOr<std::vector<S3Listed>> S3Shelf::ListManifests() const {
  const std::string begin = StrCat(root_, kSnapshots), end = StrCat("/", kSnapshotManifestName);
  LC_ASSIGN_OR_RETURN(const std::vector<S3Object> all, client_.List(begin));
  std::vector<S3Listed> out;
  for (const S3Object& one : all) {
    if (one.key.size() <= begin.size() + end.size() || !one.key.starts_with(begin) || !one.key.ends_with(end)) continue;
    std::string name = one.key.substr(begin.size(), one.key.size() - begin.size() - end.size());
    if (CheckSnapshotName(name).ok()) out.push_back({std::move(name), one.modified});
  }
  return out;
}

absl::StatusOr<S3Objects> S3Shelf::ListFiles() const {
  LC_ASSIGN_OR_RETURN(std::vector<S3Object> all, client_.List(FilesPrefix()));
  S3Objects out;
  for (S3Object& one : all) out[one.key] = std::move(one);
  return out;
}

absl::Status S3Shelf::CheckFiles(const SnapshotManifest& manifest, const S3Objects& there) const {
  std::string faults;
  size_t count = 0;
  for (const SnapshotFile& file : manifest.files) {
    const std::string key = FileKey(manifest.name, file);
    const auto found = there.find(key);
    if (found != there.end() && found->second.bytes == file.bytes) continue;
    if (++count > kFaultsMax) continue;
    const std::string fault = found == there.end()
                                  ? "is missing"
                                  : StrCat("has ", found->second.bytes, " bytes; ", file.bytes, " are in the manifest");
    faults += StrCat(faults.empty() ? "" : "; ", "file '", file.path, "' ", fault, " (object '", key, "')");
  }
  if (count == 0) return absl::OkStatus();
  const std::string more = count > kFaultsMax ? StrCat("; and ", count - kFaultsMax, " more") : "";
  return DataLoss(StrCat("snapshot '", manifest.name, "' is damaged: ", faults, more));
}

absl::StatusOr<SnapshotManifest> S3Shelf::ReadListed(const std::string& name) const {
  LC_ASSIGN_OR_RETURN(const std::string text, client_.Get(ManifestKey(name)));
  const std::string place = S3Location{client_.options().bucket, ManifestKey(name)}.Text();
  LC_ASSIGN_OR_RETURN(SnapshotManifest manifest, DecodeSnapshotManifest(text, place));
  if (manifest.name == name) return manifest;
  return DataLoss(StrCat("snapshot manifest '", place, "' is damaged: it is of snapshot '", manifest.name, "'"));
}

absl::StatusOr<std::vector<ShelvedSnapshot>> S3Shelf::List() const {
  LC_ASSIGN_OR_RETURN(const std::vector<S3Listed> all, ListManifests());
  std::vector<ShelvedSnapshot> out;
  for (const S3Listed& one : all) {
    absl::StatusOr<SnapshotManifest> manifest = ReadListed(one.name);
    const absl::StatusCode code = manifest.status().code();
    if (code == absl::StatusCode::kNotFound) continue;  // deleted just now
    const bool told =
        manifest.ok() || code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kFailedPrecondition;
    if (!told) return manifest.status();
    out.push_back({one.name, std::move(manifest), std::nullopt});
  }
  return out;
}

absl::StatusOr<SnapshotManifest> S3Shelf::ReadManifest(const std::string& name) const {
  LC_RETURN_IF_ERROR(CheckSnapshotName(name));
  absl::StatusOr<SnapshotManifest> manifest = ReadListed(name);
  if (!absl::IsNotFound(manifest.status())) return manifest;
  LC_ASSIGN_OR_RETURN(const std::vector<S3Listed> all, ListManifests());
  std::string names;
  for (const S3Listed& one : all) names += (names.empty() ? "" : ", ") + one.name;
  return NotFound(StrCat("no snapshot '", name, "' in ", Text(), "; there are: ", names.empty() ? "none" : names));
}

absl::StatusOr<bool> S3Shelf::Has(const SnapshotManifest& manifest) const {
  LC_RETURN_IF_ERROR(CheckSnapshotName(manifest.name));
  const std::string key = ManifestKey(manifest.name);
  LC_ASSIGN_OR_RETURN(const std::vector<S3Object> found, client_.List(key));
  const auto same = [&key](const S3Object& one) { return one.key == key; };
  if (std::none_of(found.begin(), found.end(), same)) return false;
  LC_ASSIGN_OR_RETURN(const std::string text, client_.Get(key));
  if (text == EncodeSnapshotManifest(manifest)) return true;
  return AlreadyExists(StrCat("another snapshot '", manifest.name, "' exists in ", Text()));
}

FileSource S3Shelf::Files(const std::string& snapshot, const std::function<void(uint64_t)>& seen) const {
  const auto done = std::make_shared<uint64_t>(0);
  const auto bytes_of = [this, snapshot, seen, done](const SnapshotFile& file, const TakeBytes& take) {
    uint64_t bytes = 0;
    return client_.Read(FileKey(snapshot, file), [&](std::string_view piece) -> absl::Status {
      bytes += piece.size();
      if (bytes > file.bytes) {
        return DataLoss(StrCat("file '", file.path, "' has more bytes than the ", file.bytes, " of the manifest"));
      }
      *done += piece.size();
      if (seen) seen(*done);
      return take(piece);
    });
  };
  return {.bytes = bytes_of, .key = [this, snapshot](const SnapshotFile& file) { return FileKey(snapshot, file); }};
}

absl::StatusOr<SnapshotManifest> S3Shelf::Verify(const std::string& name,
                                                 const std::function<void(uint64_t)>& seen) const {
  LC_ASSIGN_OR_RETURN(SnapshotManifest manifest, ReadManifest(name));
  LC_RETURN_IF_ERROR(VerifySnapshotFiles(Files(name, seen), manifest, client_.options().cancelled));
  return manifest;
}

}  // namespace lightcone
