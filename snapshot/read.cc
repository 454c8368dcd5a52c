#include "snapshot/read.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int kFaultsMax = 16;  // faults that one error names

absl::Status ReadInChunks(const std::string& path, const std::function<absl::Status(std::string_view)>& chunk) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<char> buffer(kChunkBytes);
  absl::Status status;
  while (status.ok()) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    status = n < 0 ? ErrnoStatus(errno, "read", path) : chunk({buffer.data(), static_cast<size_t>(n)});
  }
  ::close(fd);
  return status;
}

absl::Status ReadOne(const std::string& path, const SnapshotFile& file, SnapshotSink& sink,
                     const std::function<bool()>& cancelled) {
  bool skip = false;
  LC_RETURN_IF_ERROR(sink.Open(file, &skip));
  if (skip) return absl::OkStatus();
  FileCheck check(file);
  absl::Status read = ReadInChunks(path, [&](std::string_view bytes) -> absl::Status {
    if (cancelled && cancelled()) return MakeStatus(absl::StatusCode::kCancelled, "nobody waits for it any more");
    check.Add(bytes);
    return sink.Write(bytes);
  });
  if (absl::IsNotFound(read)) return DataLoss(StrCat("file '", file.path, "' is missing"));
  LC_RETURN_IF_ERROR(read);
  LC_RETURN_IF_ERROR(check.Finish());
  return sink.Close();
}

std::string PathOf(const std::string& folder, const SnapshotFile& file) {
  return StrCat(folder, "/", kSnapshotDataName, "/", file.path);
}

}  // namespace

void FileCheck::Add(std::string_view bytes) {
  bytes_ += bytes.size();
  crc32c_ = Crc32c(bytes, crc32c_);
}

absl::Status FileCheck::Finish() const {
  if (bytes_ != file_.bytes) {
    return DataLoss(StrCat("file '", file_.path, "' has ", bytes_, " bytes; ", file_.bytes, " are in the manifest"));
  }
  if (crc32c_ != file_.crc32c) return DataLoss(StrCat("file '", file_.path, "' has another checksum: it is damaged"));
  return absl::OkStatus();
}

absl::StatusOr<SnapshotFile> ChecksumFile(const std::string& path) {
  SnapshotFile out;
  LC_RETURN_IF_ERROR(ReadInChunks(path, [&out](std::string_view bytes) {
    out.bytes += bytes.size();
    out.crc32c = Crc32c(bytes, out.crc32c);
    return absl::OkStatus();
  }));
  return out;
}

absl::Status ReadSnapshot(const std::string& folder, const SnapshotManifest& manifest, SnapshotSink& sink,
                          const std::function<bool()>& cancelled) {
  for (const SnapshotFile& file : manifest.files) {
    LC_RETURN_IF_ERROR(
        Annotate(ReadOne(PathOf(folder, file), file, sink, cancelled), StrCat("snapshot '", manifest.name, "'")));
  }
  return absl::OkStatus();
}

absl::StatusOr<SnapshotManifest> VerifySnapshot(const std::string& folder, const std::function<bool()>& cancelled) {
  LC_ASSIGN_OR_RETURN(SnapshotManifest manifest, ReadSnapshotManifest(folder));
  NoSink sink;
  std::string faults;
  int count = 0;
  for (const SnapshotFile& file : manifest.files) {
    const absl::Status read = ReadOne(PathOf(folder, file), file, sink, cancelled);
    if (absl::IsCancelled(read)) return read;
    if (read.ok() || ++count > kFaultsMax) continue;
    faults += StrCat(faults.empty() ? "" : "; ", MessageOf(read));
  }
  if (count == 0) return manifest;
  const std::string more = count > kFaultsMax ? StrCat("; and ", count - kFaultsMax, " more") : "";
  return DataLoss(StrCat("snapshot '", manifest.name, "' is damaged: ", faults, more));
}

}  // namespace lightcone
