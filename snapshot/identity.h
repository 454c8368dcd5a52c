// What tells that two files of snapshots are the same. Threads: pure functions.
#pragma once

#include <cstdint>

#include "snapshot/manifest.h"

namespace lightcone {

// CRC-32C of every file that ends in its own CRC-32C (little endian), whatever else stands in it: the residue of that
// code.
inline constexpr uint32_t kCrc32cResidue = 0x48674BC7;

// Whether a file's path, size and checksum tell its content, so that snapshots may share it. SYNCED of the store is one
// that they do not tell.
inline bool TellsContent(const SnapshotFile& file) { return file.crc32c != kCrc32cResidue; }

}  // namespace lightcone
