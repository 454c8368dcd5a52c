// Second names of files, which share their bytes on disk. Only files that are never changed in place may be linked.
// Threads: safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace lightcone {

// Whether a copy of so many bytes may be made.
using CopyCheck = std::function<absl::Status(uint64_t bytes)>;

// Gives the file a second name by a hard link, or copies it where the file system offers no link from one to the other.
// A copy is fsynced; an error leaves none. NOT_FOUND when `from` is gone, ALREADY_EXISTS when `to` is there,
// RESOURCE_EXHAUSTED on a full disk. `check_copy` is asked before a copy and never for a link; its error is the answer.
absl::Status LinkFile(const std::string& from, const std::string& to, const CopyCheck& check_copy = {});

// The same for every file below a folder, except for temporary ones (NAME.tmp). Makes `to` and its folders, without an
// fsync. Errors as LinkFile; what was linked before an error stays.
absl::Status LinkFolder(const std::string& from, const std::string& to);

}  // namespace lightcone
