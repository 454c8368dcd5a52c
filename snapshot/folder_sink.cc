#include "snapshot/folder_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {

namespace fs = std::filesystem;

FolderSink::~FolderSink() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<std::string> FolderSink::Prepare(const SnapshotFile& file) {
  const std::string path = StrCat(folder_, "/", file.path);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) return ErrnoStatus(error.value(), "create the folder of", path);
  return path;
}

absl::Status FolderSink::Open(const SnapshotFile& file, bool* /*skip*/) {
  if (fd_ >= 0) ::close(fd_);
  LC_ASSIGN_OR_RETURN(path_, Prepare(file));
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return fd_ < 0 ? ErrnoStatus(errno, "create", path_) : absl::OkStatus();
}

absl::Status FolderSink::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "write", path_);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status FolderSink::Close() {
  const bool synced = ::fsync(fd_) == 0;
  const int error = errno;
  ::close(fd_);
  fd_ = -1;
  return synced ? absl::OkStatus() : ErrnoStatus(error, "fsync", path_);
}

absl::Status MakePrivateFolder(const std::string& folder) {
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  return ::chmod(folder.c_str(), 0700) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "chmod", folder);
}

absl::Status SyncFolders(const std::string& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory(error)) LC_RETURN_IF_ERROR(SyncFolder(it->path().string()));
  }
  if (error) return ErrnoStatus(error.value(), "list folder", folder);
  return SyncFolder(folder);
}

}  // namespace lightcone
