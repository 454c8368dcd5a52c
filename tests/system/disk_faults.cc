// A library for LD_PRELOAD: calls on files of one folder fail as the shared file says (disk_faults.h). Sockets, pipes
// and every other file are left alone. Mapped files are not seen, nor what the C library calls within itself.
#include "tests/system/disk_faults.h"

#include <dirent.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/system/preload.h"

namespace {

using lightcone::DiskCall;
using lightcone::DiskFaults;
using lightcone::ModeOf;
using lightcone::PathAt;
using lightcone::PathOfFd;
using lightcone::Real;

struct Setting {
  std::string folder;
  DiskFaults* faults = nullptr;
};

const Setting& Settings() {
  static const Setting* const settings = [] {
    auto* const made = new Setting;  // never destroyed: threads may outlive main
    const char* const folder = ::getenv(lightcone::kFaultsFolder);
    const char* const path = ::getenv(lightcone::kFaultsFile);
    if (folder == nullptr || path == nullptr) return made;
    const int fd = Real<int(const char*, int, ...)>("open")(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return made;
    void* const at = ::mmap(nullptr, sizeof(DiskFaults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (at == MAP_FAILED) return made;
    made->faults = static_cast<DiskFaults*>(at);
    made->folder = folder;
    return made;
  }();
  return *settings;
}

bool Concerns(const std::string& path) { return lightcone::IsWithin(path, Settings().folder); }

// The errno with which this call fails; 0: it does not.
int ErrorOf(DiskCall call, const char* name, const std::string& path) {
  DiskFaults& faults = *Settings().faults;
  faults.seen[call].fetch_add(1);
  const lightcone::DiskCallSet bit = lightcone::SetOf(call);
  if ((faults.numbered.load() & bit) == 0) return 0;
  const uint64_t number = faults.next.fetch_add(1);
  const uint64_t first = faults.first.load();
  if (number < first || number - first >= faults.count.load() || (faults.failing.load() & bit) == 0) return 0;
  faults.failed.fetch_add(1);
  std::fprintf(stderr, "call %llu fails: %s of %s\n", static_cast<unsigned long long>(number), name, path.c_str());
  return faults.error.load();
}

// Sets errno where a call on this file fails.
bool Fails(DiskCall call, const char* name, const std::string& path) {
  const int error = Concerns(path) ? ErrorOf(call, name, path) : 0;
  if (error != 0) errno = error;
  return error != 0;
}
bool FailsFd(DiskCall call, const char* name, int fd) {
  return Settings().faults != nullptr && fd >= 0 && Fails(call, name, PathOfFd(fd));
}

bool FailsOpen(const char* name, const std::string& path, int flags) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return Fails(creates ? lightcone::kCallCreate : lightcone::kCallOpen, name, path);
}
bool FailsStream(const char* name, const char* path, const char* mode) {
  return FailsOpen(name, PathAt(AT_FDCWD, path), std::strpbrk(mode, "wa") != nullptr ? O_CREAT : 0);
}

bool IsUnsynced(int fd) {
  const DiskFaults* const faults = Settings().faults;
  return faults != nullptr && faults->unsynced.load() != 0 && Concerns(PathOfFd(fd));
}

size_t TornBytes(size_t bytes) { return Settings().faults->torn.load() != 0 ? bytes / 2 : 0; }

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = Real<ssize_t(int, const void*, size_t)>("write");
  if (!FailsFd(lightcone::kCallWrite, "write", fd)) return real(fd, data, bytes);
  const int error = errno;
  if (const size_t torn = TornBytes(bytes); torn > 0) (void)real(fd, data, torn);
  errno = error;
  return -1;
}

// A call whose first argument is the file.
#define LIGHTCONE_OF_FD(kind, result, name, parameters, arguments)                         \
  result name parameters {                                                                 \
    static const auto real = Real<result parameters>(#name);                               \
    return FailsFd(lightcone::kind, #name, fd) ? static_cast<result>(-1) : real arguments; \
  }
// A call that names the file `path` in `folder`.
#define LIGHTCONE_OF_PATH(kind, name, folder, path, parameters, arguments)            \
  int name parameters {                                                               \
    static const auto real = Real<int parameters>(#name);                             \
    return Fails(lightcone::kind, #name, PathAt(folder, path)) ? -1 : real arguments; \
  }

#define LIGHTCONE_TRANSFERS(suffix, offset_type)                                                                     \
  LIGHTCONE_OF_FD(kCallWrite, ssize_t, pwrite##suffix, (int fd, const void* data, size_t bytes, offset_type offset), \
                  (fd, data, bytes, offset))                                                                         \
  LIGHTCONE_OF_FD(kCallWrite, ssize_t, pwritev##suffix, (int fd, const iovec* parts, int count, offset_type offset), \
                  (fd, parts, count, offset))                                                                        \
  LIGHTCONE_OF_FD(kCallWrite, ssize_t, sendfile##suffix, (int fd, int in, offset_type* offset, size_t bytes),        \
                  (fd, in, offset, bytes))                                                                           \
  LIGHTCONE_OF_FD(kCallRead, ssize_t, pread##suffix, (int fd, void* data, size_t bytes, offset_type offset),         \
                  (fd, data, bytes, offset))                                                                         \
  LIGHTCONE_OF_FD(kCallRead, ssize_t, preadv##suffix, (int fd, const iovec* parts, int count, offset_type offset),   \
                  (fd, parts, count, offset))                                                                        \
  LIGHTCONE_OF_FD(kCallAllocate, int, fallocate##suffix, (int fd, int mode, offset_type offset, offset_type bytes),  \
                  (fd, mode, offset, bytes))                                                                         \
  LIGHTCONE_OF_FD(kCallTruncate, int, ftruncate##suffix, (int fd, offset_type size), (fd, size))                     \
  LIGHTCONE_OF_PATH(kCallTruncate, truncate##suffix, AT_FDCWD, path, (const char* path, offset_type size),           \
                    (path, size))                                                                                    \
  /* It returns the number of the error. */                                                                          \
  int posix_fallocate##suffix(int fd, offset_type offset, offset_type bytes) {                                       \
    static const auto real = Real<int(int, offset_type, offset_type)>("posix_fallocate" #suffix);                    \
    return FailsFd(lightcone::kCallAllocate, "posix_fallocate" #suffix, fd) ? errno : real(fd, offset, bytes);       \
  }
LIGHTCONE_TRANSFERS(, off_t)
LIGHTCONE_TRANSFERS(64, off64_t)

LIGHTCONE_OF_FD(kCallWrite, ssize_t, writev, (int fd, const iovec* parts, int count), (fd, parts, count))
LIGHTCONE_OF_FD(kCallRead, ssize_t, read, (int fd, void* data, size_t bytes), (fd, data, bytes))
LIGHTCONE_OF_FD(kCallRead, ssize_t, readv, (int fd, const iovec* parts, int count), (fd, parts, count))
#define LIGHTCONE_SYNC(name)                                 \
  int name(int fd) {                                         \
    static const auto real = Real<int(int)>(#name);          \
    if (FailsFd(lightcone::kCallSync, #name, fd)) return -1; \
    return IsUnsynced(fd) ? 0 : real(fd);                    \
  }
LIGHTCONE_SYNC(fsync)
LIGHTCONE_SYNC(fdatasync)

// Without flags the call does nothing, so that no disk fails it: RocksDB asks so whether there is the call.
int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
  static const auto real = Real<int(int, off64_t, off64_t, unsigned)>("sync_file_range");
  const bool fails = flags != 0 && FailsFd(lightcone::kCallSync, "sync_file_range", fd);
  return fails ? -1 : real(fd, offset, bytes, flags);
}

ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t bytes, unsigned flags) {
  static const auto real = Real<ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned)>("copy_file_range");
  return FailsFd(lightcone::kCallWrite, "copy_file_range", out) ? -1
                                                                : real(in, in_offset, out, out_offset, bytes, flags);
}

LIGHTCONE_OF_PATH(kCallRename, rename, AT_FDCWD, to, (const char* from, const char* to), (from, to))
LIGHTCONE_OF_PATH(kCallRename, renameat, to_at, to, (int from_at, const char* from, int to_at, const char* to),
                  (from_at, from, to_at, to))
LIGHTCONE_OF_PATH(kCallRename, renameat2, to_at, to,
                  (int from_at, const char* from, int to_at, const char* to, unsigned flags),
                  (from_at, from, to_at, to, flags))
LIGHTCONE_OF_PATH(kCallLink, link, AT_FDCWD, to, (const char* from, const char* to), (from, to))
LIGHTCONE_OF_PATH(kCallLink, linkat, to_at, to, (int from_at, const char* from, int to_at, const char* to, int flags),
                  (from_at, from, to_at, to, flags))
LIGHTCONE_OF_PATH(kCallLink, symlink, AT_FDCWD, path, (const char* target, const char* path), (target, path))
LIGHTCONE_OF_PATH(kCallRemove, unlink, AT_FDCWD, path, (const char* path), (path))
LIGHTCONE_OF_PATH(kCallRemove, unlinkat, folder, path, (int folder, const char* path, int flags), (folder, path, flags))
LIGHTCONE_OF_PATH(kCallRemove, rmdir, AT_FDCWD, path, (const char* path), (path))
LIGHTCONE_OF_PATH(kCallRemove, remove, AT_FDCWD, path, (const char* path), (path))
LIGHTCONE_OF_PATH(kCallMakeFolder, mkdir, AT_FDCWD, path, (const char* path, mode_t mode), (path, mode))
LIGHTCONE_OF_PATH(kCallMakeFolder, mkdirat, folder, path, (int folder, const char* path, mode_t mode),
                  (folder, path, mode))

#define LIGHTCONE_OPENS(suffix)                                                                                \
  int open##suffix(const char* path, int flags, ...) {                                                         \
    static const auto real = Real<int(const char*, int, ...)>("open" #suffix);                                 \
    va_list arguments;                                                                                         \
    va_start(arguments, flags);                                                                                \
    const mode_t mode = ModeOf(flags, arguments);                                                              \
    va_end(arguments);                                                                                         \
    return FailsOpen("open" #suffix, PathAt(AT_FDCWD, path), flags) ? -1 : real(path, flags, mode);            \
  }                                                                                                            \
  int openat##suffix(int folder, const char* path, int flags, ...) {                                           \
    static const auto real = Real<int(int, const char*, int, ...)>("openat" #suffix);                          \
    va_list arguments;                                                                                         \
    va_start(arguments, flags);                                                                                \
    const mode_t mode = ModeOf(flags, arguments);                                                              \
    va_end(arguments);                                                                                         \
    if (FailsOpen("openat" #suffix, PathAt(folder, path), flags)) return -1;                                   \
    return real(folder, path, flags, mode);                                                                    \
  }                                                                                                            \
  LIGHTCONE_OF_PATH(kCallCreate, creat##suffix, AT_FDCWD, path, (const char* path, mode_t mode), (path, mode)) \
  FILE* fopen##suffix(const char* path, const char* mode) {                                                    \
    static const auto real = Real<FILE*(const char*, const char*)>("fopen" #suffix);                           \
    return FailsStream("fopen" #suffix, path, mode) ? nullptr : real(path, mode);                              \
  }
LIGHTCONE_OPENS()
LIGHTCONE_OPENS(64)

DIR* opendir(const char* path) {
  static const auto real = Real<DIR*(const char*)>("opendir");
  return Fails(lightcone::kCallOpen, "opendir", PathAt(AT_FDCWD, path)) ? nullptr : real(path);
}

}  // extern "C"
