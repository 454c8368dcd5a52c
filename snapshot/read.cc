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

absl::Status ReadOne(const FileSource& source, const SnapshotFile& file, SnapshotSink& sink,
                     const std::function<bool()>& cancelled) {
  bool skip = false;
  LC_RETURN_IF_ERROR(sink.Open(file, &skip));
  if (skip) return absl::OkStatus();
  FileCheck check(file);
  absl::Status taken;
  absl::Status read = source.bytes(file, [&](std::string_view bytes) {
    if (cancelled && cancelled()) {
      taken = MakeStatus(absl::StatusCode::kCancelled, "nobody waits for it any more");
    } else {
      check.Add(bytes);
      taken = sink.Write(bytes);
    }
    return taken;
  });
  LC_RETURN_IF_ERROR(taken);  // What the sink lacks is no fault of the file.
  if (absl::IsNotFound(read)) read = DataLoss(StrCat("file '", file.path, "' is missing"));
  if (read.ok()) read = check.Finish();
  if (read.ok()) return sink.Close();
  if (!source.key || !absl::IsDataLoss(read)) return read;
  return DataLoss(StrCat(MessageOf(read), " (object '", source.key(file), "')"));
}

FileSource FilesIn(const std::string& folder) {
  return {.bytes = [folder](const SnapshotFile& file, const TakeBytes& take) {
    return ReadInChunks(StrCat(folder, "/", kSnapshotDataName, "/", file.path), take);
  }};
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

absl::Status ReadSnapshotFiles(const FileSource& source, const SnapshotManifest& manifest, SnapshotSink& sink,
                               const std::function<bool()>& cancelled) {
  for (const SnapshotFile& file : manifest.files) {
    LC_RETURN_IF_ERROR(Annotate(ReadOne(source, file, sink, cancelled), StrCat("snapshot '", manifest.name, "'")));
  }
  return absl::OkStatus();
}

absl::Status VerifySnapshotFiles(const FileSource& source, const SnapshotManifest& manifest,
                                 const std::function<bool()>& cancelled) {
  NoSink sink;
  std::string faults;
  int count = 0;
  for (const SnapshotFile& file : manifest.files) {
    const absl::Status read = ReadOne(source, file, sink, cancelled);
    if (absl::IsCancelled(read) || absl::IsUnavailable(read)) return read;
    if (source.key && !read.ok() && !absl::IsDataLoss(read)) return read;
    if (read.ok() || ++count > kFaultsMax) continue;
    faults += StrCat(faults.empty() ? "" : "; ", MessageOf(read));
  }
  if (count == 0) return absl::OkStatus();
  const std::string more = count > kFaultsMax ? StrCat("; and ", count - kFaultsMax, " more") : "";
  return DataLoss(StrCat("snapshot '", manifest.name, "' is damaged: ", faults, more));
}

absl::Status ReadSnapshot(const std::string& folder, const SnapshotManifest& manifest, SnapshotSink& sink,
                          const std::function<bool()>& cancelled) {
  return ReadSnapshotFiles(FilesIn(folder), manifest, sink, cancelled);
}

absl::StatusOr<SnapshotManifest> VerifySnapshot(const std::string& folder, const std::function<bool()>& cancelled) {
  LC_ASSIGN_OR_RETURN(SnapshotManifest manifest, ReadSnapshotManifest(folder));
  LC_RETURN_IF_ERROR(VerifySnapshotFiles(FilesIn(folder), manifest, cancelled));
  return manifest;
}

}  // namespace lightcone
