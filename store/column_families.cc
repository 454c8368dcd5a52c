#include "store/column_families.h"

#include <algorithm>
#include <memory>

#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"
#include "rocksdb/write_buffer_manager.h"
#include "store/range_tombstones.h"
#include "store/store_log.h"

namespace lightcone {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kBloomBitsPerKey = 10;  // bits for 1 % false positives

// `wish`, or no compression where this build of RocksDB lacks the codec.
rocksdb::CompressionType SupportedOrNone(rocksdb::CompressionType wish) {
  const auto supported = rocksdb::GetSupportedCompressions();
  const bool found = std::find(supported.begin(), supported.end(), wish) != supported.end();
  return found ? wish : rocksdb::kNoCompression;
}

rocksdb::BlockBasedTableOptions TableOptions(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  // Index and filter blocks count against memory_bytes. Those of level 0 stay, since every read needs them.
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // Upserts ask for ids that mostly do not exist yet: the filter answers without touching a data block.
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBitsPerKey));
  table.format_version = 5;
  return table;
}

rocksdb::ColumnFamilyOptions OptionsOf(Table table, const StoreOptions& options,
                                       const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions family;
  rocksdb::BlockBasedTableOptions blocks = TableOptions(cache);
  const uint64_t memory = static_cast<uint64_t>(options.memory_bytes);
  family.write_buffer_size = std::clamp(memory / 16, kMiB, 64 * kMiB);
  family.compression = SupportedOrNone(rocksdb::kLZ4Compression);
  // Levels sized from the largest one: at most a tenth of the disk holds outdated values, whatever the store's size.
  family.level_compaction_dynamic_level_bytes = true;
  // A scan inside one collection skips the files that hold no key of it.
  if (HasCollectionPrefix(table)) family.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(kPrefixBytes));
  if (ReclaimsRanges(table)) family.table_properties_collector_factories.push_back(MakeRangeTombstoneMarker());

  switch (table) {
    case Table::kItems:
      // Memtables hold no new ids either: a filter there saves the walk of each skip list.
      family.memtable_prefix_bloom_size_ratio = 0.02;
      family.memtable_whole_key_filtering = true;
      // Payloads are JSON: the last level, where nine tenths of the bytes lie, is worth the slower codec.
      family.bottommost_compression = SupportedOrNone(rocksdb::kZSTD);
      break;
    case Table::kEmbeddings:
      // Mantissas of floats do not compress: a codec would only cost time. Large blocks suit the long scans.
      family.compression = rocksdb::kNoCompression;
      blocks.block_size = 16 << 10;
      break;
    case Table::kOrder:
    case Table::kChanges:
      // These tables are only scanned: a filter on whole keys would be dead weight. The filter on collections stays.
      blocks.whole_key_filtering = false;
      blocks.block_size = 16 << 10;
      break;
    case Table::kInputs:
      // Images are written once and seldom read. In blob files, compaction moves only references to them. Most images
      // are compressed already, so no codec is used.
      family.enable_blob_files = true;
      family.min_blob_size = 4 << 10;
      family.enable_blob_garbage_collection = true;
      family.compression = rocksdb::kNoCompression;
      break;
    default:
      break;
  }
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  return family;
}

}  // namespace

bool HasCollectionPrefix(Table table) {
  return IsBulk(table) || table == Table::kGenerations || table == Table::kItems;
}

bool IsBulk(Table table) {
  return table == Table::kEmbeddings || table == Table::kOrder || table == Table::kChanges || table == Table::kInputs;
}

bool ReclaimsRanges(Table table) { return table == Table::kItems || (IsBulk(table) && table != Table::kChanges); }

rocksdb::DBOptions DatabaseOptions(const StoreOptions& options, rocksdb::Env* env) {
  rocksdb::DBOptions db;
  if (env != nullptr) db.env = env;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.paranoid_checks = true;
  // Only a torn last record is dropped: its write was never acknowledged. Any other damage of the log refuses to open.
  // RocksDB's default would open and silently lose every acknowledged write behind the damage. A store with a synced
  // point replaces this mode.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // One flush at a time: a second one that waits for the first to sync a log would sync it once more after an error,
  // and Debian's RocksDB ends the process then (store/log_guard.h).
  db.max_background_flushes = 1;
  db.max_background_compactions = std::max(1, static_cast<int>(options.background_threads) - 1);
  // Memtables of all tables share a quarter of the memory. A bounded log makes seldom written families flush, and a
  // restart after a crash short.
  const size_t memtables = static_cast<size_t>(options.memory_bytes / 4);
  db.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(memtables);
  db.max_total_wal_size = std::max<uint64_t>(memtables, 16 * kMiB);
  // Background writes and the unsynced log reach the disk bit by bit: no writer's fsync waits behind a gigabyte.
  db.bytes_per_sync = kMiB;
  // The log is synced in larger parts: each stops the writer for a moment, and durable writers sync long before.
  db.wal_bytes_per_sync = 8 * kMiB;
  db.max_open_files = 512;
  db.info_log = MakeStoreLog();
  return db;
}

std::vector<rocksdb::ColumnFamilyDescriptor> ColumnFamilies(const StoreOptions& options) {
  const auto cache = rocksdb::NewLRUCache(static_cast<size_t>(options.memory_bytes / 4 * 3));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (int i = 0; i < kTableCount; ++i) {
    const Table table = static_cast<Table>(i);
    families.emplace_back(std::string(TableName(table)), OptionsOf(table, options, cache));
  }
  rocksdb::ColumnFamilyOptions unused;
  unused.table_factory.reset(rocksdb::NewBlockBasedTableFactory(TableOptions(cache)));
  families.emplace_back(rocksdb::kDefaultColumnFamilyName, unused);
  return families;
}

}  // namespace lightcone
