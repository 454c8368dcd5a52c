// Reads of several keys at once. Internal to store/: holds RocksDB types.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "rocksdb/db.h"

namespace lightcone {

// The values of `count` keys of one table, read at once.
struct RawValues {
  template <typename KeyAt>
  RawValues(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, size_t count, const KeyAt& key_at)
      : raw(count), status(count) {
    std::vector<rocksdb::Slice> keys;
    keys.reserve(count);
    for (size_t i = 0; i < count; ++i) keys.push_back(key_at(i));
    db.MultiGet(rocksdb::ReadOptions(), family, count, keys.data(), raw.data(), status.data());
  }

  std::vector<rocksdb::PinnableSlice> raw;
  std::vector<rocksdb::Status> status;
};

}  // namespace lightcone
