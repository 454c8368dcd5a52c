// Durable file primitives: whole-file reads and atomic, fsynced writes. Thread safe; every error names the path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

// Reads a whole file of at most `bytes_max` bytes. NOT_FOUND, RESOURCE_EXHAUSTED (too large) or the errno's code.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t bytes_max = int64_t{1} << 32);

// Writes to PATH.tmp, fsyncs, renames over PATH and fsyncs the folder: after a crash either the old or the new
// content is there, never a mixture. RESOURCE_EXHAUSTED on a full disk; the temporary file is removed then.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

// Makes a finished file durable: fsync(path). And a rename durable: fsync of the folder.
absl::Status SyncFile(const std::string& path);
absl::Status SyncFolder(const std::string& folder);

// mkdir -p; folders that it made are there after a power loss too.
absl::Status MakeFolders(const std::string& folder);

// CRC-32C (Castagnoli) of `bytes`, continued from `seed`. Used for every checksum that Lightcone writes.
uint32_t Crc32c(std::string_view bytes, uint32_t seed = 0);

// The status of an errno value: "step 'path': strerror" with ENOSPC/EDQUOT as RESOURCE_EXHAUSTED, ENOENT as NOT_FOUND.
absl::Status ErrnoStatus(int error, std::string_view step, std::string_view path);

}  // namespace lightcone
