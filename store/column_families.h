// The RocksDB options of the database and of each table's column family. Internal to store/: holds RocksDB types.
#pragma once

#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "store/store.h"

namespace lightcone {

// Length of the collection's number at the start of a key of the tables with HasCollectionPrefix. A scan inside one
// collection may use the prefix filters (ColumnFamilies sets the extractor).
inline constexpr size_t kPrefixBytes = 4;
bool HasCollectionPrefix(Table table);

// Whether the table is scanned from end to end (backfill, replay, rebuild). Such scans must not flood the block cache.
bool IsBulk(Table table);

// Whether the removal of a range of keys begins the compactions that give its space back. Trims of the change log come
// with every seal, and the next ones take the space along. Other tables are small.
bool ReclaimsRanges(Table table);

rocksdb::DBOptions DatabaseOptions(const StoreOptions& options, rocksdb::Env* env);

// One descriptor a table, in the order of Table, and RocksDB's unused "default" at the end.
std::vector<rocksdb::ColumnFamilyDescriptor> ColumnFamilies(const StoreOptions& options);

}  // namespace lightcone
