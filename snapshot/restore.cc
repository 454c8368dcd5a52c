#include "snapshot/restore.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "snapshot/archive.h"
#include "snapshot/folder_sink.h"
#include "snapshot/read.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t{1} << 20;

absl::StatusOr<SnapshotManifest> ReadArchive(const std::string& path, ArchiveReader::MakeSink make_sink,
                                             const std::function<bool()>& cancelled) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  ArchiveReader reader(path, std::move(make_sink));
  std::vector<char> buffer(kChunkBytes);
  absl::Status status;
  while (status.ok()) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    status = n < 0 ? ErrnoStatus(errno, "read", path) : reader.Append({buffer.data(), static_cast<size_t>(n)});
    if (cancelled && cancelled()) status.Update(MakeStatus(absl::StatusCode::kCancelled, "interrupted"));
  }
  ::close(fd);
  LC_RETURN_IF_ERROR(status);
  return reader.Finish();
}

absl::StatusOr<SnapshotManifest> Verify(const std::string& source, bool folder,
                                        const std::function<bool()>& cancelled) {
  if (folder) return VerifySnapshot(source, cancelled);
  const auto none = [](const SnapshotManifest&, std::string_view) {
    return absl::StatusOr<std::unique_ptr<SnapshotSink>>(std::make_unique<NoSink>());
  };
  return ReadArchive(source, none, cancelled);
}

absl::Status Unpack(const std::string& source, bool folder, const SnapshotManifest& manifest, const std::string& to,
                    const std::function<bool()>& cancelled) {
  if (folder) {
    FolderSink sink(to);
    return ReadSnapshot(source, manifest, sink, cancelled);
  }
  const auto make = [&to](const SnapshotManifest&, std::string_view) {
    return absl::StatusOr<std::unique_ptr<SnapshotSink>>(std::make_unique<FolderSink>(to));
  };
  return ReadArchive(source, make, cancelled).status();
}

absl::Status CheckTarget(const std::string& data_folder) {
  if (data_folder.empty()) return InvalidField("data", "''", "a folder that is missing or empty");
  std::error_code error;
  if (!fs::exists(data_folder, error)) return absl::OkStatus();
  struct stat folder {
  }, parent{};
  const bool known =
      ::stat(data_folder.c_str(), &folder) == 0 && ::stat(StrCat(data_folder, "/..").c_str(), &parent) == 0;
  if (known && folder.st_dev != parent.st_dev) {
    return FailedPrecondition(
        StrCat("data folder '", data_folder,
               "' is a file system of its own, and no rename gives it all files at once; allowed: "
               "a folder in it"));
  }
  if (fs::is_directory(data_folder, error) && fs::is_empty(data_folder, error) && !error) return absl::OkStatus();
  return FailedPrecondition(
      StrCat("data folder '", data_folder, "' holds something; allowed: a folder that is missing or empty"));
}

}  // namespace

absl::StatusOr<SnapshotManifest> RestoreFrom(const RestoreSource& source, const std::string& data_folder) {
  LC_RETURN_IF_ERROR(CheckTarget(data_folder));
  std::error_code error;
  LC_ASSIGN_OR_RETURN(SnapshotManifest manifest, source.check());
  fs::path place = fs::absolute(data_folder, error).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  const std::string parent = place.parent_path().string();
  const std::string partial = StrCat(parent, "/.", place.filename().string(), ".restoring");
  fs::remove_all(partial, error);  // of a restore that was killed
  if (error) return ErrnoStatus(error.value(), "remove", partial);
  absl::Status made = MakePrivateFolder(partial);
  if (made.ok()) made = source.unpack(manifest, partial);
  if (made.ok()) made = SyncFolders(partial);
  if (made.ok()) {
    fs::rename(partial, place, error);
    if (error) made = ErrnoStatus(error.value(), StrCat("rename '", partial, "' to"), place.string());
  }
  if (!made.ok()) {
    fs::remove_all(partial, error);
    return Annotate(made, StrCat("restore into '", data_folder, "'"));
  }
  LC_RETURN_IF_ERROR(SyncFolder(parent));
  return manifest;
}

absl::StatusOr<SnapshotManifest> RestoreSnapshot(const std::string& source, const std::string& data_folder,
                                                 const std::function<bool()>& cancelled) {
  std::error_code error;
  const bool folder = fs::is_directory(source, error);
  return RestoreFrom({.check = [&] { return Verify(source, folder, cancelled); },
                      .unpack = [&](const SnapshotManifest& manifest,
                                    const std::string& to) { return Unpack(source, folder, manifest, to, cancelled); }},
                     data_folder);
}

}  // namespace lightcone
