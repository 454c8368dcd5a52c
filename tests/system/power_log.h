// The log of a recorded process: every change of files below one folder, in the order in which the kernel made it, and
// notes of the process itself between them. power_recorder.cc writes it, power_disk.h replays it. Plain types, so that
// the recorder needs nothing.
// A record is a PowerHeader, then `path_bytes`, `other_bytes` and `data_bytes` bytes. Each is appended by one write, so
// that only the last one can be torn. Numbers are in the order of the machine's bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lightcone {

enum PowerKind : uint32_t {
  kPowerNote = 1,     // data: a note of the process
  kPowerCreate,       // path, file: a new file
  kPowerMakeFolder,   // path, file: a new folder
  kPowerWrite,        // file, offset, data
  kPowerTruncate,     // file, size: the new length
  kPowerExtend,       // file, size: the least length from now on
  kPowerZero,         // file, offset, size: bytes that become zeros; the length stays
  kPowerSyncBegin,    // file or folder, size: number of the sync. It covers what stands before this record.
  kPowerSyncEnd,      // size: number of the sync that succeeded
  kPowerLink,         // path: the file; other: its new name
  kPowerRename,       // path, other: from and to
  kPowerRemove,       // path: a file, or an empty folder
  kPowerUnsupported,  // path: a call that the recorder cannot record, and its file
};

struct PowerHeader {
  uint32_t checksum;  // PowerChecksum of everything behind it
  uint32_t kind;      // PowerKind
  uint32_t path_bytes, other_bytes, data_bytes;
  uint32_t unused;
  uint64_t device, inode;
  uint64_t offset, size;
};

inline constexpr char kPowerFolder[] = "LIGHTCONE_POWER_FOLDER";  // environment: folder that is recorded, absolute
inline constexpr char kPowerLog[] = "LIGHTCONE_POWER_LOG";        // environment: path of the log, outside of it
// environment: number of the record after which the process kills itself with -9; 0 or absent: none
inline constexpr char kPowerKillAfter[] = "LIGHTCONE_POWER_KILL_AFTER";
inline constexpr char kPowerNoteFunction[] = "lightcone_power_note";  // void(const char* bytes, size_t count)

// FNV-1a over words of eight bytes, then over the bytes that are left, folded to 32 bits.
inline uint32_t PowerChecksum(const char* bytes, size_t count) {
  uint64_t hash = 14695981039346656037ull;
  const auto mix = [&hash](uint64_t value) { hash = (hash ^ value) * 1099511628211ull; };
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word = 0;
    __builtin_memcpy(&word, bytes, 8);
    mix(word);
  }
  for (; count > 0; ++bytes, --count) mix(static_cast<unsigned char>(*bytes));
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

}  // namespace lightcone
