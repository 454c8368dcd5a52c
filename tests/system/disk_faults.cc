// A library for LD_PRELOAD: calls on files of one folder fail as the shared file says (disk_faults.h). Sockets, pipes
// and every other file are left alone.
#include "tests/system/disk_faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using lightcone::DiskCall;
using lightcone::DiskFaults;

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

const char* Folder() {
  static const char* const folder = ::getenv(lightcone::kFaultsFolder);
  return folder;
}

DiskFaults* Faults() {
  static DiskFaults* const faults = []() -> DiskFaults* {
    const char* const path = ::getenv(lightcone::kFaultsFile);
    if (path == nullptr || Folder() == nullptr) return nullptr;
    const int fd = Real<int(const char*, int, ...)>("open")(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* const at = ::mmap(nullptr, sizeof(DiskFaults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    return at == MAP_FAILED ? nullptr : static_cast<DiskFaults*>(at);
  }();
  return faults;
}

bool Concerns(const char* path) {
  return Faults() != nullptr && path != nullptr && std::strncmp(path, Folder(), std::strlen(Folder())) == 0;
}

bool ConcernsFile(int fd) {
  if (Faults() == nullptr) return false;
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, path, sizeof(path) - 1);
  if (n <= 0) return false;
  path[n] = 0;
  return Concerns(path);
}

// The errno with which this call fails; 0: it does not.
int ErrorOf(DiskCall call) {
  DiskFaults& faults = *Faults();
  const uint64_t number = faults.seen[call].fetch_add(1);
  const uint64_t first = faults.first.load();
  if (faults.call.load() != call || number < first || number - first >= faults.count.load()) return 0;
  faults.failed.fetch_add(1);
  return faults.error.load();
}

// Sets errno where the call fails.
bool Fails(DiskCall call, bool concerned) {
  const int error = concerned ? ErrorOf(call) : 0;
  if (error != 0) errno = error;
  return error != 0;
}

size_t TornBytes(size_t bytes) { return Faults()->torn.load() != 0 ? bytes / 2 : 0; }

template <typename Function>
int OpenWith(Function* real, const char* path, int flags, mode_t mode) {
  return Fails(lightcone::kCallOpen, Concerns(path)) ? -1 : real(path, flags, mode);
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = Real<ssize_t(int, const void*, size_t)>("write");
  if (!Fails(lightcone::kCallWrite, ConcernsFile(fd))) return real(fd, data, bytes);
  const int error = errno;
  if (const size_t torn = TornBytes(bytes); torn > 0) (void)real(fd, data, torn);
  errno = error;
  return -1;
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  static const auto real = Real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return Fails(lightcone::kCallWrite, ConcernsFile(fd)) ? -1 : real(fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  static const auto real = Real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return Fails(lightcone::kCallWrite, ConcernsFile(fd)) ? -1 : real(fd, data, bytes, offset);
}

int fsync(int fd) {
  static const auto real = Real<int(int)>("fsync");
  return Fails(lightcone::kCallSync, ConcernsFile(fd)) ? -1 : real(fd);
}
int fdatasync(int fd) {
  static const auto real = Real<int(int)>("fdatasync");
  return Fails(lightcone::kCallSync, ConcernsFile(fd)) ? -1 : real(fd);
}

int rename(const char* from, const char* to) {
  static const auto real = Real<int(const char*, const char*)>("rename");
  return Fails(lightcone::kCallRename, Concerns(to)) ? -1 : real(from, to);
}

int open(const char* path, int flags, ...) {
  static const auto real = Real<int(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return OpenWith(real, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  static const auto real = Real<int(const char*, int, ...)>("open64");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return OpenWith(real, path, flags, mode);
}

ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  static const auto real = Real<ssize_t(int, void*, size_t, off_t)>("pread");
  return Fails(lightcone::kCallRead, ConcernsFile(fd)) ? -1 : real(fd, data, bytes, offset);
}
ssize_t pread64(int fd, void* data, size_t bytes, off64_t offset) {
  static const auto real = Real<ssize_t(int, void*, size_t, off64_t)>("pread64");
  return Fails(lightcone::kCallRead, ConcernsFile(fd)) ? -1 : real(fd, data, bytes, offset);
}

}  // extern "C"
