#include "cli/demo/demo_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/status.h"

namespace lightcone::cli {
namespace {

constexpr char kMarker[] = "LIGHTCONE-DEMO";  // file in the folder of every demo

// A folder that is missing, empty or an earlier demo's becomes this one's, which the marker tells; whatever else stands
// in a folder is not ours to remove.
absl::Status Claim(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path marker = std::filesystem::path(folder) / kMarker;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_regular_file(marker, error)) {
    const bool empty = std::filesystem::is_directory(folder, error) && std::filesystem::is_empty(folder, error);
    if (!empty || error) {
      return FailedPrecondition(StrCat("'", folder, "' is not a folder of lightcone demo: it is not empty and has no ",
                                       "file ", kMarker, "; name another with --dir"));
    }
  }
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  return WriteFileAtomically(marker.string(), "models, data and report of lightcone demo, which replaces them\n");
}

// An earlier demo's server that was kept (--keep) and still runs is refused: it holds the lock of its store.
absl::Status CheckNobodyServes(const std::string& folder) {
  const std::string lock = folder + "/store/LOCK";
  const int fd = ::open(lock.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "open", lock);
  struct flock held {};
  held.l_type = F_WRLCK;
  held.l_whence = SEEK_SET;
  const int error = ::fcntl(fd, F_GETLK, &held) == 0 ? 0 : errno;
  ::close(fd);
  if (error != 0) return ErrnoStatus(error, "look at the lock", lock);
  if (held.l_type == F_UNLCK) return absl::OkStatus();
  return FailedPrecondition(
      StrCat("process ", held.l_pid, " serves '", folder,
             "', as an earlier demo with --keep left it; stop it, or name another folder with --dir"));
}

}  // namespace

absl::Status ClaimDemoFolder(const std::string& folder) {
  LC_RETURN_IF_ERROR(Claim(folder));
  return CheckNobodyServes(folder + "/server");
}

absl::Status ClearDemoFolder(const std::string& folder) {
  for (const char* ours : {"server", "old", "independent", "new", "lightcone", "report.html"}) {
    const std::string path = folder + "/" + ours;
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) return ErrnoStatus(error.value(), "remove", path);
  }
  return absl::OkStatus();
}

}  // namespace lightcone::cli
