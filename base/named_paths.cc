#include "base/named_paths.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/status.h"

namespace lightcone {
namespace {

bool IsPlain(const std::string& path) {
  const std::filesystem::path parts(path);
  return parts.is_absolute() && path.find('\0') == std::string::npos &&
         std::none_of(parts.begin(), parts.end(), [](const auto& part) { return part == ".."; });
}

// What is left of a path below a folder; empty: it is not below it.
std::string Below(const std::string& folder, const std::string& path) {
  const std::filesystem::path rest =
      std::filesystem::path(path).lexically_normal().lexically_relative(std::filesystem::path(folder) / "");
  const std::string text = rest.string();
  return text.empty() || text == ".." || text.starts_with("../") ? std::string() : text;
}

// 0: the path is there, and no link leads out of the folder; else the errno value.
int Look(const std::string& folder, const std::string& below) {
  const int home = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (home < 0) return errno;
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long found = ::syscall(SYS_openat2, home, below.c_str(), &how, sizeof(how));
  const int error = found < 0 ? errno : 0;
  if (found >= 0) ::close(static_cast<int>(found));
  ::close(home);
  return error;
}

}  // namespace

absl::Status ParseFolders(std::string_view text, std::string_view field, std::vector<std::string>* folders) {
  std::vector<std::string> made;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    std::string folder(text.substr(begin, end - begin));
    if (!IsPlain(folder)) {
      return InvalidField(field, StrCat("'", text, "'"), "absolute folders without '..', with ':' between them");
    }
    folder = std::filesystem::path(folder).lexically_normal().string();
    if (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    made.push_back(std::move(folder));
    begin = end + 1;
  }
  *folders = std::move(made);
  return absl::OkStatus();
}

absl::Status CheckNamedPath(std::string_view field, const std::string& path, const std::vector<std::string>& folders,
                            std::string_view option) {
  bool missing = false;
  for (const std::string& folder : folders) {
    const std::string below = IsPlain(path) ? Below(folder, path) : std::string();
    const int error = below.empty() ? EXDEV : Look(folder, below);
    if (error == 0) return absl::OkStatus();
    missing = missing || error == ENOENT || error == ENOTDIR;
  }
  const std::string value = StrCat("'", path, "'");
  if (missing) {
    return FieldError(absl::StatusCode::kNotFound, field, value,
                      StrCat("a path that is there, below a folder of ", option));
  }
  return FieldError(absl::StatusCode::kPermissionDenied, field, value,
                    folders.empty() ? StrCat("no path: the server's option ", option, " lists no folder")
                                    : StrCat("paths below the folders that the server's option ", option, " lists"));
}

}  // namespace lightcone
