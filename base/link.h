// Second names of files, which share their bytes on disk. Only files that are never changed in place may be linked.
// Threads: safe.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lightcone {

// Gives the file a second name by a hard link, or copies it where the file system offers no link from one to the other.
// A copy is fsynced; an error leaves none. NOT_FOUND when `from` is gone, ALREADY_EXISTS when `to` is there,
// RESOURCE_EXHAUSTED on a full disk.
absl::Status LinkFile(const std::string& from, const std::string& to);

// The same for every file below a folder, except for temporary ones (NAME.tmp). Makes `to` and its folders, without an
// fsync. Errors as LinkFile; what was linked before an error stays.
absl::Status LinkFolder(const std::string& from, const std::string& to);

}  // namespace lightcone
