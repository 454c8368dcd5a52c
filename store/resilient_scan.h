// A walk over a table of RocksDB that passes over what cannot be read: a missing file, a block that is damaged. Blocks'
// checksums are not verified, since values have their own; a flipped bit then costs one row instead of a block.
// Internal to store/: holds RocksDB types. Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rocksdb/db.h"

namespace lightcone {

class ResilientScan {
 public:
  ResilientScan(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family);

  bool Valid() const { return iterator_->Valid(); }
  void Next();                     // REQUIRES: Valid()
  std::string_view key() const;    // key, until Next()
  std::string_view value() const;  // raw value, until Next()

  // What was passed over so far: the key before each gap ("": none) and the key behind it ("": none).
  const std::vector<std::pair<std::string, std::string>>& gaps() const { return gaps_; }

 private:
  // Moves to the first row from `target` on. False where it cannot be read, and for a target up to the last key.
  bool Reads(const std::string& target);
  void PassOver();
  // The smallest readable target above `prefix` + `low`, up to `prefix` + `high`, which can be read.
  std::string Narrow(std::string prefix, int low, int high);

  std::unique_ptr<rocksdb::Iterator> iterator_;
  std::string last_;  // last key that was read
  std::vector<std::pair<std::string, std::string>> gaps_;
};

}  // namespace lightcone
