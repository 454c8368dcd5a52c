// RocksDB's errors as ours. Internal to store/: holds RocksDB types. Threads: pure functions.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "rocksdb/status.h"

namespace lightcone {

// Whether the error says that there is no room: a full disk, an exhausted quota or a file-size limit.
bool IsFullDisk(const rocksdb::Status& status);

// Whether the error is RocksDB's only word about a file that has failed before: "Seen error".
bool RepeatsError(const rocksdb::Status& status);

// `step` stands in front of the text.
absl::Status ToStatus(const rocksdb::Status& status, std::string_view step);

}  // namespace lightcone
