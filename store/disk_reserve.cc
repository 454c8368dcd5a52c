#include "store/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

// Parts of the reserve's size. Above the first one the disk takes new data, so that tables can still be written from
// memory. Below the second one the reserve is given up.
constexpr int64_t kMarginPart = 4;
constexpr int64_t kLowPart = 8;

// Bytes that the file system has free for this process. As much as there can be where nobody knows.
int64_t FreeBytesOf(const std::string& path) {
  struct statvfs info {};
  if (::statvfs(std::filesystem::path(path).parent_path().c_str(), &info) != 0) {
    return std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

// Gives the file at `path` `bytes` bytes on the disk. 0 or an errno value; an error leaves no file.
int MakeFile(const std::string& path, int64_t bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int error = ::ftruncate(fd, bytes) == 0 ? 0 : errno;  // an earlier run may have had a larger one
  if (error == 0 && ::fallocate(fd, 0, 0, bytes) != 0) error = errno;
  ::close(fd);
  if (error != 0) ::unlink(path.c_str());
  return error;
}

}  // namespace

DiskReserve::DiskReserve(const std::string& folder, int64_t bytes, std::function<int64_t()> free_bytes)
    : path_((std::filesystem::path(folder) / kReserveName).string()),
      bytes_(bytes),
      free_bytes_(std::move(free_bytes)) {}

int64_t DiskReserve::Free() const { return free_bytes_ ? free_bytes_() : FreeBytesOf(path_); }

void DiskReserve::Keep() {
  if (held_.load() == bytes_ && bytes_ > 0) return;
  absl::MutexLock lock(&mutex_);
  if (held_.load() == bytes_ && bytes_ > 0) return;
  struct stat info {};
  const bool found = ::stat(path_.c_str(), &info) == 0;
  if (bytes_ == 0) {
    if (found) ::unlink(path_.c_str());
    return;
  }
  const int64_t allocated = found ? static_cast<int64_t>(info.st_blocks) * 512 : 0;
  if (allocated < bytes_ && Free() + allocated < bytes_ + bytes_ / kMarginPart) return;
  const int error = MakeFile(path_, bytes_);
  if (error == 0) {
    held_.store(bytes_);
    if (warned_) spdlog::info("'{}': the reserve of {} bytes is whole again", path_, bytes_);
    warned_ = false;
  } else if (error != ENOSPC && error != EDQUOT && !warned_) {
    warned_ = true;
    spdlog::warn(
        "{}; new data is refused while less than {} bytes are free, and nothing keeps other programs from them",
        MessageOf(ErrnoStatus(error, "make the reserve", path_)), bytes_ + bytes_ / kMarginPart);
  }
}

absl::Status DiskReserve::CheckGrowth(uint64_t bytes) const {
  if (bytes_ == 0) return absl::OkStatus();
  const int64_t free = Free();
  const int64_t own = bytes_ - held_.load() + bytes_ / kMarginPart;
  const uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() - own);
  const int64_t needed = own + static_cast<int64_t>(std::min(bytes, most));
  if (free >= needed) return absl::OkStatus();
  return ResourceExhausted(StrCat(
      "the disk is full: free some space: ", free, " bytes are free where '", path_, "' lies, and new data needs ",
      needed, " bytes; deletes, rollbacks and activations go on, and new data does once there is room"));
}

void DiskReserve::MakeRoom(uint64_t bytes) {
  if (held_.load() == 0 || Free() >= bytes_ / kLowPart + static_cast<int64_t>(bytes)) return;
  absl::MutexLock lock(&mutex_);
  if (held_.load() == 0) return;
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    spdlog::error("{}", MessageOf(ErrnoStatus(errno, "give up the reserve", path_)));
    return;
  }
  held_.store(0);
  warned_ = true;
  spdlog::warn("'{}': the disk is full; deletes and operators use the reserve of {} bytes, and new data is refused",
               path_, bytes_);
}

}  // namespace lightcone
