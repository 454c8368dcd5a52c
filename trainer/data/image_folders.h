// Folders of image files: one folder a class, as in several data sets. Threads: safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

struct ImageFile {
  std::string path;  // path below the listed folder, for example "cat/1.png"
  std::string class_name;
};

// The image files (.png, .jpg, .jpeg, .webp, in any case) of root/folder in the order of their names, all of one class.
// Hidden files and .txt are ignored. INVALID_ARGUMENT names any other entry.
absl::Status ListImages(const std::string& root, const std::string& folder, const std::string& class_name,
                        std::vector<ImageFile>* files);

// ListImages of each folder in root/folder, in the order of their names. Each folder is a class. INVALID_ARGUMENT for a
// file beside the folders that is neither hidden nor .txt. An empty `folder` means the root itself.
absl::StatusOr<std::vector<ImageFile>> ListClassFolders(const std::string& root, const std::string& folder);

// The entries of a folder in the order of their names, without hidden ones. NOT_FOUND names the folder.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder);

// Whether the folder exists, and whether it holds folders.
bool IsFolder(const std::string& path);
bool HoldsFolders(const std::string& folder);

// The folder folder/name that an archive unpacks to, or `folder` itself where that does not exist.
std::string UnpackedFolder(const std::string& folder, const std::string& name);

}  // namespace lightcone
