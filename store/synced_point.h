// How far the log is known to be on the disk, and what of a damaged log can be had. A power loss may leave zeros or a
// gap among records that nobody had asked to be durable; where everything acknowledged as durable lies before the
// damage, the log may be cut there.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "rocksdb/wal_filter.h"

namespace lightcone {

inline constexpr char kSyncedName[] = "SYNCED";

// Every write up to this sequence number of RocksDB has been synced; it lies in this log, in older ones, or in tables.
struct SyncedPoint {
  uint64_t sequence = 0;
  uint64_t log = 0;
};

// nullopt: there is none, or not a whole one (a store of an older version).
std::optional<SyncedPoint> ReadSyncedPoint(const std::string& folder);

// The file SYNCED: 8 bytes "LCSYNCED", sequence and log (8 each), CRC-32C of these 24 (4), all little endian.
class SyncedFile {
 public:
  SyncedFile() = default;
  SyncedFile(const SyncedFile&) = delete;
  SyncedFile& operator=(const SyncedFile&) = delete;
  ~SyncedFile();

  // Makes the file durable, with this point.
  absl::Status Open(const std::string& folder, SyncedPoint point);
  // Not synced itself: after a power loss an older point may be there, which is true as well. Errors are ignored
  // for the same reason.
  void Note(SyncedPoint point);

 private:
  int fd_ = -1;
};

// Looks on while RocksDB reads its log, and has it take a gap between two records for the damage that it is: sequence
// numbers count every operation of every batch.
class LogWatch final : public rocksdb::WalFilter {
 public:
  WalProcessingOption LogRecordFound(unsigned long long log, const std::string& file, const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch* new_batch, bool* batch_changed) override;
  // Before the log is read.
  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& log_of_family,
                                const std::map<std::string, uint32_t>& family_of_name) override;
  const char* Name() const override { return "LightconeLogWatch"; }

  // The oldest log that has what is not in tables yet. Older ones may still be there, and are not read.
  uint64_t first_log() const { return first_log_; }

  uint64_t last() const { return last_; }  // sequence of the last operation before any gap; 0: none

 private:
  uint64_t last_ = 0;
  uint64_t first_log_ = 0;
};

}  // namespace lightcone
