// A batch in RocksDB's form: operations in an order that memtables take fast, each value in its envelope.
// Internal to store/: holds RocksDB types. Threads: pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"
#include "store/store.h"

namespace lightcone {

// An upper bound near the size of what AppendTo makes: a large batch must not be moved while it grows.
size_t BytesOf(const WriteBatch& batch);

// Appends the operations of `batch` to `raw`. `families` are the handles of all tables, in the order of Table. Fails
// with RocksDB's error, naming table and key.
absl::Status AppendTo(const WriteBatch& batch, std::span<rocksdb::ColumnFamilyHandle* const> families,
                      rocksdb::WriteBatch* raw);

}  // namespace lightcone
