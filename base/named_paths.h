// Paths on this machine that a caller of a server names: only what lies below folders that an option lists is opened.
// Threads: safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace lightcone {

// Absolute folders with ':' between them, as in PATH; empty: none. INVALID_ARGUMENT names `field`.
absl::Status ParseFolders(std::string_view text, std::string_view field, std::vector<std::string>* folders);

// Whether `path` is there and lies below one of the folders, with symbolic links followed that stay below it.
// PERMISSION_DENIED, the same whether it is there or not: it lies elsewhere, or no folder is listed. NOT_FOUND: below a
// folder there is no such path. Both name `field` and `option`, which lists the folders.
absl::Status CheckNamedPath(std::string_view field, const std::string& path, const std::vector<std::string>& folders,
                            std::string_view option);

}  // namespace lightcone
