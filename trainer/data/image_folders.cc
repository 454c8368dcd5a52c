#include "trainer/data/image_folders.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

std::string LowerExtension(const std::string& name) {
  std::string text = fs::path(name).extension().string();
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string Below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : StrCat(folder, "/", name);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder) {
  std::vector<std::string> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name[0] != '.') entries.push_back(std::move(name));
  }
  if (error) return ErrnoStatus(error.value(), "list", folder);
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string UnpackedFolder(const std::string& folder, const std::string& name) {
  std::string inner = StrCat(folder, "/", name);
  return IsFolder(inner) ? inner : folder;
}

bool HoldsFolders(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!it->path().filename().string().starts_with('.') && it->is_directory(error)) return true;
  }
  return false;
}

absl::Status ListImages(const std::string& root, const std::string& folder, const std::string& class_name,
                        std::vector<ImageFile>* files) {
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> entries, ListFolder(StrCat(root, "/", folder)));
  for (const std::string& entry : entries) {
    const std::string path = Below(folder, entry), extension = LowerExtension(entry);
    if (extension == ".txt") continue;
    const bool image = extension == ".png" || extension == ".jpg" || extension == ".jpeg" || extension == ".webp";
    if (!image) {
      return InvalidField("image file", StrCat("'", root, "/", path, "'"),
                          ".png, .jpg, .jpeg or .webp (hidden files and .txt are ignored)");
    }
    files->push_back({path, class_name});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ImageFile>> ListClassFolders(const std::string& root, const std::string& folder) {
  const std::string home = folder.empty() ? root : StrCat(root, "/", folder);
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> entries, ListFolder(home));
  std::vector<ImageFile> files;
  for (const std::string& entry : entries) {
    if (IsFolder(StrCat(home, "/", entry))) {
      LC_RETURN_IF_ERROR(ListImages(root, Below(folder, entry), entry, &files));
    } else if (LowerExtension(entry) != ".txt") {
      return InvalidField("entry of a data folder", StrCat("'", home, "/", entry, "'"), "one folder for each class");
    }
  }
  return files;
}

}  // namespace lightcone
