#include "index/rows/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/read_error.h"
#include "base/status.h"

namespace lightcone {

Mapping::~Mapping() {
  watch_.reset();
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

absl::StatusOr<Mapping> Mapping::OfFile(const std::string& path, std::atomic<bool>* damaged) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ReadError(errno, "open", path);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    const int error = errno;
    ::close(fd);
    return ReadError(error, "stat", path);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return ErrnoStatus(EISDIR, "map", path);
  }
  const size_t bytes = static_cast<size_t>(info.st_size);
  if (bytes == 0) {
    ::close(fd);
    return Mapping();
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (data == MAP_FAILED) return ReadError(error, "map", path);
  Mapping mapping(data, bytes);
  mapping.file_ = {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino)};
  mapping.watch_ = std::make_unique<FaultWatch>(data, bytes, damaged);
  return mapping;
}

absl::StatusOr<Mapping> Mapping::Zeroed(size_t bytes) {
  if (bytes == 0) return Mapping();
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return ResourceExhausted(StrCat("cannot reserve ", bytes, " bytes for a segment"));
  return Mapping(data, bytes);
}

}  // namespace lightcone
