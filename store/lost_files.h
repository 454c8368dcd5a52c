// Finds files of a store that are missing or cut. Internal to store/: holds RocksDB types. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rocksdb/db.h"

namespace lightcone {

struct LostFile {
  std::string path;
  uint64_t bytes = 0;     // bytes that the file should have
  std::string what;       // a sentence that names the file, its size and its table
  bool is_table = false;  // false: the file holds large values that tables refer to
};

// The files of the open database in `folder` that are missing or shorter than they should be.
std::vector<LostFile> FindLostFiles(const std::string& folder, rocksdb::DB& db);

}  // namespace lightcone
