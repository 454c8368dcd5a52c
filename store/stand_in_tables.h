// Stand-ins for tables of RocksDB whose files are lost. RocksDB gives up on a whole table of ours where one recent file
// is missing. A file system that serves an almost empty table in its place lets everything else be read. Internal to
// store/: holds RocksDB types. Threads: safe once made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/file_system.h"

namespace lightcone {

// The key of the only row of a stand-in. No row of ours has it.
inline constexpr char kStandInKey[] = "";

// The machine's file system, with a stand-in under each path of `lost`, of the size that is given there.
absl::StatusOr<std::shared_ptr<rocksdb::FileSystem>> WithStandIns(std::map<std::string, uint64_t> lost);

}  // namespace lightcone
