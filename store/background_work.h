// Bounded waits for RocksDB's background work. Internal to store/: holds RocksDB types. Threads: safe.
#pragma once

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "rocksdb/db.h"

namespace lightcone {

// Waits until no flush and no compaction runs. BUSY where one still does after `most`.
rocksdb::Status AwaitIdle(rocksdb::DB& db, absl::Duration most);

// Writes the memtables of these families to tables. BUSY where that has not ended after `most`, or `given_up` says so:
// the flushes go on, and the next call waits for them, too. DB::Flush can wait for ever, since RocksDB does not wake
// who waits there when a writer meets an error. That error also closes the gate in front of the flush
// (store/flush_gate.h), and the thread that opens the gate is the one that waits.
rocksdb::Status FlushAll(rocksdb::DB& db, const std::vector<rocksdb::ColumnFamilyHandle*>& families,
                         absl::Duration most, const std::function<bool()>& given_up);

}  // namespace lightcone
