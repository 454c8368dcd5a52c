// Compactions of removed ranges. RocksDB 7.8.3 counts a range tombstone as a few bytes: nothing asks for the compaction
// that gives the space of its rows back, and a server that writes little keeps them for weeks. Internal to store/:
// holds RocksDB types. Threads: safe.
#pragma once

#include <memory>

#include "rocksdb/table_properties.h"

namespace lightcone {

// Marks each file of a table in which a range tombstone lies. RocksDB compacts a marked file into the next level once
// no level is too large, and so on down to the last level, where rows and tombstone go. A mark survives a restart.
std::shared_ptr<rocksdb::TablePropertiesCollectorFactory> MakeRangeTombstoneMarker();

}  // namespace lightcone
