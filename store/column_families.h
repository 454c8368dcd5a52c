// The RocksDB options of the database and of each table's column family. Internal to store/: holds RocksDB types.
#pragma once

#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "store/store.h"

namespace lightcone {

// Keys of these tables start with the collection's number in this many bytes; a scan inside one collection may use the
// prefix filters (ColumnFamilies sets the extractor).
inline constexpr size_t kPrefixBytes = 4;
bool HasCollectionPrefix(Table table);

// Bulk tables are scanned from end to end (backfill, replay, rebuild); such scans must not wash the block cache.
bool IsBulk(Table table);

rocksdb::DBOptions DatabaseOptions(const StoreOptions& options, rocksdb::Env* env);

// One descriptor a table, in the order of Table, and RocksDB's unused "default" at the end.
std::vector<rocksdb::ColumnFamilyDescriptor> ColumnFamilies(const StoreOptions& options);

}  // namespace lightcone
