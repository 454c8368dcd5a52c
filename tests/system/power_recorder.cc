// A library for LD_PRELOAD: writes down every call that changes files below one folder (power_log.h). A mutex is held
// over such a call and its record, so that the log has the order of the calls. Syncs run outside of it: one covers what
// stood in the log when it began. A child inherits the log; a record is one write to a file opened with O_APPEND.
// What cannot be recorded is told by a record of its own: files that stdio opens, shared mappings that write, symbolic
// links, files without a name, exchanges of two names. Calls of other files go through untouched.
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "tests/system/power_log.h"
#include "tests/system/preload.h"

namespace {

using lightcone::ModeOf;
using lightcone::PathAt;
using lightcone::PathOfFd;
using lightcone::PowerHeader;
using lightcone::PowerKind;
using lightcone::Real;

constinit std::mutex mutex;  // order of the calls and of their records

struct Setting {
  std::string folder;
  int log = -1;
  uint64_t kill_after = 0;
};

const Setting& Settings() {
  static const Setting* const settings = [] {
    auto* const made = new Setting;  // never destroyed: threads may outlive main
    const char* const folder = ::getenv(lightcone::kPowerFolder);
    const char* const log = ::getenv(lightcone::kPowerLog);
    if (folder == nullptr || log == nullptr) return made;
    made->log = Real<int(const char*, int, ...)>("open")(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (made->log >= 0) made->folder = folder;
    const char* const kill_after = ::getenv(lightcone::kPowerKillAfter);
    if (kill_after != nullptr) made->kill_after = ::strtoull(kill_after, nullptr, 10);
    return made;
  }();
  return *settings;
}

bool Concerns(const std::string& path) { return lightcone::IsWithin(path, Settings().folder); }
bool ConcernsFd(int fd) { return !Settings().folder.empty() && fd >= 0 && Concerns(PathOfFd(fd)); }

// The caller holds the mutex.
void Append(PowerKind kind, const PowerHeader& fields, const std::string& path = "", const std::string& other = "",
            const void* data = nullptr, size_t bytes = 0) {
  PowerHeader header = fields;
  header.kind = kind;
  header.path_bytes = static_cast<uint32_t>(path.size());
  header.other_bytes = static_cast<uint32_t>(other.size());
  header.data_bytes = static_cast<uint32_t>(bytes);
  std::string record(reinterpret_cast<const char*>(&header), sizeof(header));
  record += path;
  record += other;
  if (bytes > 0) record.append(static_cast<const char*>(data), bytes);
  header.checksum = lightcone::PowerChecksum(record.data() + sizeof(uint32_t), record.size() - sizeof(uint32_t));
  std::memcpy(record.data(), &header.checksum, sizeof(uint32_t));
  static const auto write_real = Real<ssize_t(int, const void*, size_t)>("write");
  if (write_real(Settings().log, record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
    std::fputs("the log of the recorder cannot be written\n", stderr);
    ::abort();
  }
  static uint64_t records = 0;
  if (++records == Settings().kill_after) ::kill(::getpid(), SIGKILL);
}

PowerHeader Fields(const struct stat& info, uint64_t offset = 0, uint64_t size = 0) {
  PowerHeader fields{};
  fields.device = info.st_dev;
  fields.inode = info.st_ino;
  fields.offset = offset;
  fields.size = size;
  return fields;
}
PowerHeader FieldsOfFd(int fd, uint64_t offset = 0, uint64_t size = 0) {
  struct stat info {};
  (void)::fstat(fd, &info);
  return Fields(info, offset, size);
}
PowerHeader FieldsOfPath(const std::string& path, uint64_t size = 0) {
  struct stat info {};
  (void)::lstat(path.c_str(), &info);
  return Fields(info, 0, size);
}

// Runs a call, and `note` with its result unless that is an error.
template <typename Call, typename Note>
auto Record(bool concerned, const Call& call, const Note& note) {
  if (!concerned) return call();
  const std::lock_guard lock(mutex);
  const auto result = call();
  const int error = errno;
  if (result >= 0) note(result);
  errno = error;
  return result;
}

void AppendUnsupported(const char* call, const std::string& path) {
  const std::lock_guard lock(mutex);
  Append(lightcone::kPowerUnsupported, PowerHeader{}, std::string(call) + " " + path);
}

// The bytes that a call has just written before the position of the file.
void AppendWritten(int fd, const void* data, size_t bytes) {
  const off_t end = ::lseek(fd, 0, SEEK_CUR);
  if (bytes > 0) {
    Append(lightcone::kPowerWrite, FieldsOfFd(fd, static_cast<uint64_t>(end) - bytes), "", "", data, bytes);
  }
}

// Linux appends to a file that is opened so, whatever the offset.
void AppendWrittenAt(int fd, const void* data, size_t bytes, off_t offset) {
  if ((::fcntl(fd, F_GETFL) & O_APPEND) != 0) {
    struct stat info {};
    (void)::fstat(fd, &info);
    offset = info.st_size - static_cast<off_t>(bytes);
  }
  if (bytes > 0) Append(lightcone::kPowerWrite, FieldsOfFd(fd, static_cast<uint64_t>(offset)), "", "", data, bytes);
}

// What the kernel has copied into a file is read back from there.
void AppendCopied(int fd, size_t bytes, off_t offset) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  const int copy = Real<int(const char*, int, ...)>("open")(path, O_RDONLY | O_CLOEXEC);
  std::string data(bytes, '\0');
  if (copy < 0 || ::pread(copy, data.data(), bytes, offset) != static_cast<ssize_t>(bytes)) {
    Append(lightcone::kPowerUnsupported, PowerHeader{}, "reading back a copy to " + PathOfFd(fd));
  } else if (bytes > 0) {
    Append(lightcone::kPowerWrite, FieldsOfFd(fd, static_cast<uint64_t>(offset)), "", "", data.data(), bytes);
  }
  if (copy >= 0) ::close(copy);
}

std::string Joined(const struct iovec* parts, int count, size_t bytes) {
  std::string all;
  for (int i = 0; i < count; ++i) all.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  all.resize(bytes);
  return all;
}

template <typename Call>
int Open(const std::string& path, int flags, const Call& call) {
  const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  if (!changes || !Concerns(path)) return call();
  if ((flags & O_TMPFILE) == O_TMPFILE) AppendUnsupported("open with O_TMPFILE", path);
  struct stat before {};
  bool found = false;
  return Record(
      true,
      [&] {
        found = ::lstat(path.c_str(), &before) == 0;
        return call();
      },
      [&](int fd) {
        if (!found) {
          Append(lightcone::kPowerCreate, FieldsOfFd(fd), path);
        } else if ((flags & O_TRUNC) != 0) {
          Append(lightcone::kPowerTruncate, FieldsOfFd(fd, 0, 0));
        }
      });
}

int Sync(int fd, int (*real)(int)) {
  if (!ConcernsFd(fd)) return real(fd);
  static std::atomic<uint64_t> last{0};
  const uint64_t number = static_cast<uint64_t>(::getpid()) << 32 | ++last;
  {
    const std::lock_guard lock(mutex);
    Append(lightcone::kPowerSyncBegin, FieldsOfFd(fd, 0, number));
  }
  const int synced = real(fd);  // others write meanwhile
  if (synced != 0) return synced;
  const std::lock_guard lock(mutex);
  PowerHeader fields{};
  fields.size = number;
  Append(lightcone::kPowerSyncEnd, fields);
  return synced;
}

int Allocate(int fd, int mode, off_t offset, off_t bytes, int (*real)(int, int, off_t, off_t)) {
  return Record(
      ConcernsFd(fd), [&] { return real(fd, mode, offset, bytes); },
      [&](int) {
        const auto from = static_cast<uint64_t>(offset), count = static_cast<uint64_t>(bytes);
        if (mode == 0) {
          Append(lightcone::kPowerExtend, FieldsOfFd(fd, 0, from + count));
        } else if ((mode & FALLOC_FL_PUNCH_HOLE) != 0) {
          Append(lightcone::kPowerZero, FieldsOfFd(fd, from, count));
        } else if (mode != FALLOC_FL_KEEP_SIZE) {
          Append(lightcone::kPowerUnsupported, PowerHeader{}, "fallocate " + PathOfFd(fd));
        }
      });
}

template <typename Call>
int Remove(const std::string& path, const Call& call) {
  return Record(Concerns(path), call, [&](int) { Append(lightcone::kPowerRemove, PowerHeader{}, path); });
}

template <typename Call>
int MakeFolder(const std::string& path, const Call& call) {
  return Record(Concerns(path), call, [&](int) { Append(lightcone::kPowerMakeFolder, FieldsOfPath(path), path); });
}

// A rename or a link between the folder and another place is none that the log can tell.
template <typename Call>
int Name(PowerKind kind, const std::string& from, const std::string& to, const Call& call) {
  if (Concerns(from) != Concerns(to)) AppendUnsupported("a name from elsewhere or to elsewhere", from + " " + to);
  return Record(Concerns(from) && Concerns(to), call, [&](int) { Append(kind, PowerHeader{}, from, to); });
}

template <typename Call>
FILE* OpenStream(const char* path, const char* mode, const Call& call) {
  const std::string whole = PathAt(AT_FDCWD, path);
  if (Concerns(whole) && std::strpbrk(mode, "wa+") != nullptr) AppendUnsupported("fopen", whole);
  return call();
}

template <typename Call>
void* Map(int protection, int flags, int fd, const Call& call) {
  const bool writes = (protection & PROT_WRITE) != 0 && (flags & MAP_TYPE) != MAP_PRIVATE;
  if (writes && (flags & MAP_ANONYMOUS) == 0 && ConcernsFd(fd)) AppendUnsupported("mmap", PathOfFd(fd));
  return call();
}

}  // namespace

extern "C" {

void lightcone_power_note(const char* bytes, size_t count) {
  if (Settings().log < 0) return;
  const std::lock_guard lock(mutex);
  Append(lightcone::kPowerNote, PowerHeader{}, "", "", bytes, count);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = Real<ssize_t(int, const void*, size_t)>("write");
  return Record(
      ConcernsFd(fd), [&] { return real(fd, data, bytes); },
      [&](ssize_t n) { AppendWritten(fd, data, static_cast<size_t>(n)); });
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  static const auto real = Real<ssize_t(int, const struct iovec*, int)>("writev");
  return Record(
      ConcernsFd(fd), [&] { return real(fd, parts, count); },
      [&](ssize_t n) {
        const std::string all = Joined(parts, count, static_cast<size_t>(n));
        AppendWritten(fd, all.data(), all.size());
      });
}

#define LIGHTCONE_PWRITE(name, offset_type)                                               \
  ssize_t name(int fd, const void* data, size_t bytes, offset_type offset) {              \
    static const auto real = Real<ssize_t(int, const void*, size_t, offset_type)>(#name); \
    return Record(                                                                        \
        ConcernsFd(fd), [&] { return real(fd, data, bytes, offset); },                    \
        [&](ssize_t n) { AppendWrittenAt(fd, data, static_cast<size_t>(n), offset); });   \
  }
LIGHTCONE_PWRITE(pwrite, off_t)
LIGHTCONE_PWRITE(pwrite64, off64_t)

#define LIGHTCONE_PWRITEV(name, offset_type)                                                   \
  ssize_t name(int fd, const struct iovec* parts, int count, offset_type offset) {             \
    static const auto real = Real<ssize_t(int, const struct iovec*, int, offset_type)>(#name); \
    return Record(                                                                             \
        ConcernsFd(fd), [&] { return real(fd, parts, count, offset); },                        \
        [&](ssize_t n) {                                                                       \
          const std::string all = Joined(parts, count, static_cast<size_t>(n));                \
          AppendWrittenAt(fd, all.data(), all.size(), offset);                                 \
        });                                                                                    \
  }
LIGHTCONE_PWRITEV(pwritev, off_t)
LIGHTCONE_PWRITEV(pwritev64, off64_t)

#define LIGHTCONE_SENDFILE(name, offset_type)                                                                 \
  ssize_t name(int out, int in, offset_type* offset, size_t bytes) {                                          \
    static const auto real = Real<ssize_t(int, int, offset_type*, size_t)>(#name);                            \
    return Record(                                                                                            \
        ConcernsFd(out), [&] { return real(out, in, offset, bytes); },                                        \
        [&](ssize_t n) { AppendCopied(out, static_cast<size_t>(n), ::lseek(out, 0, SEEK_CUR) - off_t{n}); }); \
  }
LIGHTCONE_SENDFILE(sendfile, off_t)
LIGHTCONE_SENDFILE(sendfile64, off64_t)

ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t bytes, unsigned flags) {
  static const auto real = Real<ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned)>("copy_file_range");
  return Record(
      ConcernsFd(out), [&] { return real(in, in_offset, out, out_offset, bytes, flags); },
      [&](ssize_t n) {
        const off_t end = out_offset != nullptr ? *out_offset : ::lseek(out, 0, SEEK_CUR);
        AppendCopied(out, static_cast<size_t>(n), end - off_t{n});
      });
}

int fsync(int fd) {
  static const auto real = Real<int(int)>("fsync");
  return Sync(fd, real);
}
int fdatasync(int fd) {
  static const auto real = Real<int(int)>("fdatasync");
  return Sync(fd, real);
}

#define LIGHTCONE_TRUNCATE(by_fd, by_path, size_type)                                                       \
  int by_fd(int fd, size_type size) {                                                                       \
    static const auto real = Real<int(int, size_type)>(#by_fd);                                             \
    return Record(                                                                                          \
        ConcernsFd(fd), [&] { return real(fd, size); },                                                     \
        [&](int) { Append(lightcone::kPowerTruncate, FieldsOfFd(fd, 0, static_cast<uint64_t>(size))); });   \
  }                                                                                                         \
  int by_path(const char* path, size_type size) {                                                           \
    static const auto real = Real<int(const char*, size_type)>(#by_path);                                   \
    const std::string whole = PathAt(AT_FDCWD, path);                                                       \
    return Record(                                                                                          \
        Concerns(whole), [&] { return real(path, size); },                                                  \
        [&](int) { Append(lightcone::kPowerTruncate, FieldsOfPath(whole, static_cast<uint64_t>(size))); }); \
  }
LIGHTCONE_TRUNCATE(ftruncate, truncate, off_t)
LIGHTCONE_TRUNCATE(ftruncate64, truncate64, off64_t)

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  static const auto real = Real<int(int, int, off_t, off_t)>("fallocate");
  return Allocate(fd, mode, offset, bytes, real);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t bytes) {
  static const auto real = Real<int(int, int, off_t, off_t)>("fallocate64");
  return Allocate(fd, mode, offset, bytes, real);
}
// These return the number of an error.
#define LIGHTCONE_POSIX_FALLOCATE(name, offset_type)                                                              \
  int name(int fd, offset_type offset, offset_type bytes) {                                                       \
    static const auto real = Real<int(int, offset_type, offset_type)>(#name);                                     \
    return -Record(                                                                                               \
        ConcernsFd(fd), [&] { return -real(fd, offset, bytes); },                                                 \
        [&](int) { Append(lightcone::kPowerExtend, FieldsOfFd(fd, 0, static_cast<uint64_t>(offset + bytes))); }); \
  }
LIGHTCONE_POSIX_FALLOCATE(posix_fallocate, off_t)
LIGHTCONE_POSIX_FALLOCATE(posix_fallocate64, off64_t)

int rename(const char* from, const char* to) {
  static const auto real = Real<int(const char*, const char*)>("rename");
  return Name(lightcone::kPowerRename, PathAt(AT_FDCWD, from), PathAt(AT_FDCWD, to), [&] { return real(from, to); });
}
int renameat(int from_at, const char* from, int to_at, const char* to) {
  static const auto real = Real<int(int, const char*, int, const char*)>("renameat");
  return Name(lightcone::kPowerRename, PathAt(from_at, from), PathAt(to_at, to),
              [&] { return real(from_at, from, to_at, to); });
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  static const auto real = Real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const std::string path = PathAt(from_at, from);
  if (Concerns(path) && (flags & ~RENAME_NOREPLACE) != 0) AppendUnsupported("renameat2", path);
  return Name(lightcone::kPowerRename, path, PathAt(to_at, to), [&] { return real(from_at, from, to_at, to, flags); });
}

int link(const char* from, const char* to) {
  static const auto real = Real<int(const char*, const char*)>("link");
  return Name(lightcone::kPowerLink, PathAt(AT_FDCWD, from), PathAt(AT_FDCWD, to), [&] { return real(from, to); });
}
int linkat(int from_at, const char* from, int to_at, const char* to, int flags) {
  static const auto real = Real<int(int, const char*, int, const char*, int)>("linkat");
  return Name(lightcone::kPowerLink, PathAt(from_at, from), PathAt(to_at, to),
              [&] { return real(from_at, from, to_at, to, flags); });
}
int symlink(const char* target, const char* path) {
  static const auto real = Real<int(const char*, const char*)>("symlink");
  const std::string whole = PathAt(AT_FDCWD, path);
  if (Concerns(whole)) AppendUnsupported("symlink", whole);
  return real(target, path);
}

int unlink(const char* path) {
  static const auto real = Real<int(const char*)>("unlink");
  return Remove(PathAt(AT_FDCWD, path), [&] { return real(path); });
}
int unlinkat(int folder, const char* path, int flags) {
  static const auto real = Real<int(int, const char*, int)>("unlinkat");
  return Remove(PathAt(folder, path), [&] { return real(folder, path, flags); });
}
int rmdir(const char* path) {
  static const auto real = Real<int(const char*)>("rmdir");
  return Remove(PathAt(AT_FDCWD, path), [&] { return real(path); });
}
int remove(const char* path) {
  static const auto real = Real<int(const char*)>("remove");
  return Remove(PathAt(AT_FDCWD, path), [&] { return real(path); });
}

int mkdir(const char* path, mode_t mode) {
  static const auto real = Real<int(const char*, mode_t)>("mkdir");
  return MakeFolder(PathAt(AT_FDCWD, path), [&] { return real(path, mode); });
}
int mkdirat(int folder, const char* path, mode_t mode) {
  static const auto real = Real<int(int, const char*, mode_t)>("mkdirat");
  return MakeFolder(PathAt(folder, path), [&] { return real(folder, path, mode); });
}

#define LIGHTCONE_OPEN(open_name, at_name, creat_name)                                                   \
  int open_name(const char* path, int flags, ...) {                                                      \
    static const auto real = Real<int(const char*, int, ...)>(#open_name);                               \
    va_list arguments;                                                                                   \
    va_start(arguments, flags);                                                                          \
    const mode_t mode = ModeOf(flags, arguments);                                                        \
    va_end(arguments);                                                                                   \
    return Open(PathAt(AT_FDCWD, path), flags, [&] { return real(path, flags, mode); });                 \
  }                                                                                                      \
  int at_name(int folder, const char* path, int flags, ...) {                                            \
    static const auto real = Real<int(int, const char*, int, ...)>(#at_name);                            \
    va_list arguments;                                                                                   \
    va_start(arguments, flags);                                                                          \
    const mode_t mode = ModeOf(flags, arguments);                                                        \
    va_end(arguments);                                                                                   \
    return Open(PathAt(folder, path), flags, [&] { return real(folder, path, flags, mode); });           \
  }                                                                                                      \
  int creat_name(const char* path, mode_t mode) {                                                        \
    static const auto real = Real<int(const char*, mode_t)>(#creat_name);                                \
    return Open(PathAt(AT_FDCWD, path), O_CREAT | O_WRONLY | O_TRUNC, [&] { return real(path, mode); }); \
  }
LIGHTCONE_OPEN(open, openat, creat)
LIGHTCONE_OPEN(open64, openat64, creat64)

FILE* fopen(const char* path, const char* mode) {
  static const auto real = Real<FILE*(const char*, const char*)>("fopen");
  return OpenStream(path, mode, [&] { return real(path, mode); });
}
FILE* fopen64(const char* path, const char* mode) {
  static const auto real = Real<FILE*(const char*, const char*)>("fopen64");
  return OpenStream(path, mode, [&] { return real(path, mode); });
}

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  static const auto real = Real<void*(void*, size_t, int, int, int, off_t)>("mmap");
  return Map(protection, flags, fd, [&] { return real(at, bytes, protection, flags, fd, offset); });
}
void* mmap64(void* at, size_t bytes, int protection, int flags, int fd, off64_t offset) {
  static const auto real = Real<void*(void*, size_t, int, int, int, off64_t)>("mmap64");
  return Map(protection, flags, fd, [&] { return real(at, bytes, protection, flags, fd, offset); });
}

}  // extern "C"
