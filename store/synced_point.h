// The part of the log that is known to be on disk. A power loss may leave zeros or a gap among records that were never
// acknowledged as durable. The log may be cut at the damage where all durable records lie before it. Threads: one at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "rocksdb/wal_filter.h"

namespace lightcone {

inline constexpr char kSyncedName[] = "SYNCED";

// Every write up to this sequence number of RocksDB has been synced. It lies in this log, in an older one or in tables.
struct SyncedPoint {
  uint64_t sequence = 0;
  uint64_t log = 0;
};

// The path that RocksDB gives log `number`.
std::string LogPath(const std::string& folder, uint64_t number);

// nullopt without a whole file, as in a store of an older version.
std::optional<SyncedPoint> ReadSyncedPoint(const std::string& folder);

// Whether the log has a whole record with this or a later sequence. Goes by lengths, not by checksums.
bool LogReaches(const std::string& path, uint64_t sequence);
// Whether the logs from the point's own on reach the point. True where that log is gone: RocksDB removes a log once all
// of it is in tables. False also where all is in tables and the log has just begun.
bool LogsReach(const std::string& folder, SyncedPoint point);

// The file SYNCED: 8 bytes "LCSYNCED", sequence and log (8 each), CRC-32C of these 24 (4), all little endian.
class SyncedFile {
 public:
  SyncedFile() = default;
  SyncedFile(const SyncedFile&) = delete;
  SyncedFile& operator=(const SyncedFile&) = delete;
  ~SyncedFile();

  // Writes the file durably with this point.
  absl::Status Open(const std::string& folder, SyncedPoint point);
  // Overwrites the point without a sync. After a power loss the file may hold an older point, which is true as well.
  // Errors are ignored for the same reason.
  void Note(SyncedPoint point);

 private:
  int fd_ = -1;
};

// Watches while RocksDB reads its log and reports a gap between two records as damage: sequence numbers count every
// operation of every batch.
class LogWatch final : public rocksdb::WalFilter {
 public:
  WalProcessingOption LogRecordFound(unsigned long long log, const std::string& file, const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch* new_batch, bool* batch_changed) override;
  // RocksDB calls this before it reads the log.
  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& log_of_family,
                                const std::map<std::string, uint32_t>& family_of_name) override;
  const char* Name() const override { return "LightconeLogWatch"; }

  // The oldest log with operations that are not in tables yet. Older logs may still be there, and are not read.
  uint64_t first_log() const { return first_log_; }

  uint64_t last() const { return last_; }  // sequence of the last operation before any gap; 0: no operation

 private:
  uint64_t last_ = 0;
  uint64_t first_log_ = 0;
};

}  // namespace lightcone
