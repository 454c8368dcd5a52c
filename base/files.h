// Durable file primitives: whole-file reads and atomic, fsynced writes. Every error names the path. Threads: safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

// Reads a whole file of at most `bytes_max` bytes. NOT_FOUND, RESOURCE_EXHAUSTED (too large) or the errno's code.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t bytes_max = int64_t{1} << 32);

// Writes to PATH.tmp, fsyncs, renames over PATH and fsyncs the folder. A crash leaves the old or the new content, never
// a mixture. RESOURCE_EXHAUSTED on a full disk, after the temporary file was removed.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

// Make a finished file durable by fsync(path), and a rename by an fsync of the folder.
absl::Status SyncFile(const std::string& path);
absl::Status SyncFolder(const std::string& folder);

// Makes the folder and its missing parents, durably. A folder that is there becomes durable, too, where its parent may
// be read: who made it may have been killed before the sync. Costs an fsync or more.
absl::Status MakeFolders(const std::string& folder);

// CRC-32C (Castagnoli) of `bytes`, continued from `seed`: the checksum of all files that Lightcone writes.
uint32_t Crc32c(std::string_view bytes, uint32_t seed = 0);

// The status of an errno value: "step 'path': strerror", RESOURCE_EXHAUSTED as IsExhausted says, NOT_FOUND for ENOENT.
absl::Status ErrnoStatus(int error, std::string_view step, std::string_view path);

}  // namespace lightcone
