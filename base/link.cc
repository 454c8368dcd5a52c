#include "base/link.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

// Another file system, one without hard links, and a file with as many links as it may have.
bool NeedsCopy(int error) { return error == EXDEV || error == EPERM || error == EOPNOTSUPP || error == EMLINK; }

}  // namespace

absl::Status LinkFile(const std::string& from, const std::string& to, const CopyCheck& check_copy) {
  if (::link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  if (error == EEXIST) return AlreadyExists(StrCat("link '", from, "': '", to, "' exists"));
  if (!NeedsCopy(error)) return ErrnoStatus(error, "link", from);
  std::error_code failed;
  if (check_copy) {
    const uintmax_t bytes = fs::file_size(from, failed);
    if (failed) return ErrnoStatus(failed.value(), "look at", from);
    LC_RETURN_IF_ERROR(check_copy(bytes));
  }
  fs::copy_file(from, to, fs::copy_options::none, failed);
  if (!failed) return SyncFile(to);
  ::unlink(to.c_str());
  return ErrnoStatus(failed.value(), StrCat("copy '", from, "' to"), to);
}

absl::Status LinkFolder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return ErrnoStatus(error.value(), "create folder", to);
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".tmp")) continue;
    std::error_code gone;
    if (it->is_directory(gone)) {
      LC_RETURN_IF_ERROR(LinkFolder(it->path().string(), to + "/" + name));
    } else if (it->is_regular_file(gone)) {
      LC_RETURN_IF_ERROR(LinkFile(it->path().string(), to + "/" + name));
    } else if (gone) {
      return ErrnoStatus(gone.value(), "look at", it->path().string());
    }
  }
  return error ? ErrnoStatus(error.value(), "list folder", from) : absl::OkStatus();
}

}  // namespace lightcone
