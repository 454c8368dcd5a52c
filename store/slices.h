// Views of bytes as RocksDB and as the standard library have them. Internal to store/. Threads: pure functions.
#pragma once

#include <string_view>

#include "rocksdb/slice.h"

namespace lightcone {

inline rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
inline std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

}  // namespace lightcone
