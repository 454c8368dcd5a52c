// Folders of image files: one folder a class, as several data sets are laid out.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

struct ImageFile {
  std::string path;  // below the folder that was listed, for example "cat/1.png"
  std::string class_name;
};

// The image files (.png, .jpg, .jpeg, .webp, in any case) of root/folder in the order of their names, all of one class.
// Hidden files and .txt are ignored; any other entry is INVALID_ARGUMENT and named.
absl::Status ListImages(const std::string& root, const std::string& folder, const std::string& class_name,
                        std::vector<ImageFile>* files);

// ListImages of each folder in root/folder, in the order of their names, each a class. A file beside the folders that
// is neither hidden nor .txt is INVALID_ARGUMENT. `folder` may be empty: root itself.
absl::StatusOr<std::vector<ImageFile>> ListClassFolders(const std::string& root, const std::string& folder);

// The entries of a folder in the order of their names, without hidden ones. NOT_FOUND names it.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder);

// Whether there is such a folder, and whether it holds folders.
bool IsFolder(const std::string& path);
bool HoldsFolders(const std::string& folder);

}  // namespace lightcone
