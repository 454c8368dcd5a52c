// RocksDB's warnings in the server's log. RocksDB's own log is a file on the disk of the data: Debian's build of the
// library ends the process by an assertion when that file is written after a write to it has failed, as on a full disk.
// Threads: every method is safe from any thread.
#pragma once

#include <memory>

#include "rocksdb/env.h"

namespace lightcone {

std::shared_ptr<rocksdb::Logger> MakeStoreLog();

}  // namespace lightcone
