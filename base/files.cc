#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

#include "base/exhausted.h"
#include "base/read_error.h"
#include "base/status.h"

namespace lightcone {
namespace {

// Closes a descriptor at the end of a scope.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

absl::Status SyncPath(const std::string& path, int flags) {
  Descriptor file{::open(path.c_str(), flags | O_CLOEXEC)};
  if (file.fd < 0) return ErrnoStatus(errno, "open", path);
  if (::fsync(file.fd) != 0) return ErrnoStatus(errno, "fsync", path);
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write", path);
    }
    content.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// 0 when `path` leads to a folder, else the errno value.
int FolderError(const char* path) {
  struct stat info {};
  if (::stat(path, &info) != 0) return errno;
  return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

// Without this sync of the parent a power loss removes the folder with all synced files inside.
absl::Status SyncEntry(const std::filesystem::path& folder) {
  const std::string parent = folder.parent_path().string();
  return SyncPath(parent.empty() ? "." : parent, O_RDONLY | O_DIRECTORY);
}

// The same for a folder that was there already. A mount point is an entry of another disk, and a parent that may not be
// read cannot be synced: neither is a reason to refuse the folder.
absl::Status SyncOldEntry(const std::filesystem::path& folder) {
  struct stat own {};
  struct stat above {};
  const std::filesystem::path parent = folder.parent_path();
  const bool known = ::stat(folder.c_str(), &own) == 0 && ::stat(parent.empty() ? "." : parent.c_str(), &above) == 0;
  if (known && own.st_dev != above.st_dev) return absl::OkStatus();
  const absl::Status synced = SyncEntry(folder);
  return absl::IsPermissionDenied(synced) ? absl::OkStatus() : synced;
}

std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) ? (c >> 1) ^ 0x82F63B78u : c >> 1;
    table[i] = c;
  }
  return table;
}

uint32_t Crc32cTable(const char* data, size_t size, uint32_t crc) {
  static const std::array<uint32_t, 256> table = MakeTable();
  for (size_t i = 0; i < size; ++i) crc = table[(crc ^ static_cast<uint8_t>(data[i])) & 0xff] ^ (crc >> 8);
  return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) uint32_t Crc32cSse(const char* data, size_t size, uint32_t crc) {
  uint64_t wide = crc;
  for (; size >= 8; size -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++data) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*data));
  return crc;
}
#endif

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view step, std::string_view path) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  if (error == ENOENT) code = absl::StatusCode::kNotFound;
  if (IsExhausted(error)) code = absl::StatusCode::kResourceExhausted;
  if (error == EACCES || error == EPERM || error == EROFS) code = absl::StatusCode::kPermissionDenied;
  if (error == ENOTDIR || error == EISDIR) code = absl::StatusCode::kFailedPrecondition;
  return MakeStatus(code, StrCat(step, " '", path, "': ", std::string(std::strerror(error))));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t bytes_max) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return ReadError(errno, "open", path);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return ReadError(errno, "stat", path);
  if (S_ISDIR(info.st_mode)) return ErrnoStatus(EISDIR, "read", path);
  if (info.st_size > bytes_max) {
    return ResourceExhausted(StrCat("file '", path, "' has ", info.st_size, " bytes; allowed: 0 .. ", bytes_max));
  }
  std::string content;
  std::array<char, 1 << 16> buffer;
  content.reserve(static_cast<size_t>(info.st_size));
  while (true) {
    const ssize_t n = ::read(file.fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ReadError(errno, "read", path);
    if (n == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(n));
    if (static_cast<int64_t>(content.size()) > bytes_max) {
      return ResourceExhausted(StrCat("file '", path, "' grew above ", bytes_max, " bytes"));
    }
  }
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp";
  {
    Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.fd < 0) return ErrnoStatus(errno, "create", temporary);
    absl::Status written = WriteAll(file.fd, content, temporary);
    if (written.ok() && ::fsync(file.fd) != 0) written = ErrnoStatus(errno, "fsync", temporary);
    if (!written.ok()) {
      ::unlink(temporary.c_str());
      return written;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return ErrnoStatus(error, "rename to", path);
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return SyncFolder(folder.empty() ? "." : folder);
}

absl::Status SyncFile(const std::string& path) { return SyncPath(path, O_RDONLY); }
absl::Status SyncFolder(const std::string& folder) { return SyncPath(folder, O_RDONLY | O_DIRECTORY); }

absl::Status MakeFolders(const std::string& folder) {
  std::vector<std::filesystem::path> missing;  // missing folders, the deepest first
  std::filesystem::path at(folder);
  if (!at.has_filename()) at = at.parent_path();  // "a/b/" means "a/b"
  for (; !at.empty(); at = at.parent_path()) {
    const int error = FolderError(at.c_str());
    if (error == 0) break;
    // A path below a file gives ENOTDIR; its parent, the file itself, comes next.
    const bool look_above = error == ENOENT || (error == ENOTDIR && ::access(at.c_str(), F_OK) != 0);
    if (!look_above) return ErrnoStatus(error, "create folder", folder);
    missing.push_back(at);
  }
  // Folders are made and synced from the top down: of those that are there, the deepest alone may lack its sync.
  if (!at.empty()) LC_RETURN_IF_ERROR(SyncOldEntry(at));
  for (auto made = missing.rbegin(); made != missing.rend(); ++made) {
    if (::mkdir(made->c_str(), 0777) != 0) {
      const int error = errno;
      const bool made_by_other = error == EEXIST && FolderError(made->c_str()) == 0;
      if (!made_by_other) return ErrnoStatus(error, "create folder", folder);
    }
    LC_RETURN_IF_ERROR(SyncEntry(*made));
  }
  return absl::OkStatus();
}

uint32_t Crc32c(std::string_view bytes, uint32_t seed) {
  uint32_t crc = ~seed;
#ifdef __x86_64__
  static const bool fast = __builtin_cpu_supports("sse4.2");
  if (fast) return ~Crc32cSse(bytes.data(), bytes.size(), crc);
#endif
  return ~Crc32cTable(bytes.data(), bytes.size(), crc);
}

}  // namespace lightcone
