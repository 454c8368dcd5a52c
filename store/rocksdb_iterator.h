// A walk over a range of a table in RocksDB, each value verified by its envelope.
// Internal to store/: holds RocksDB types. Threads: one at a time.
#pragma once

#include <memory>
#include <string_view>

#include "rocksdb/db.h"
#include "store/store.h"

namespace lightcone {

// Rows from `begin` up to but not including `end`; an empty `end` means the table's end. `db` must outlive the walk.
std::unique_ptr<Iterator> MakeRocksIterator(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, Table table,
                                            std::string_view begin, std::string_view end);

}  // namespace lightcone
