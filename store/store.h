// The truth: ordered tables of keys and values with conditional, atomic, durable batches. The engine knows storage only
// through this interface; RocksDB implements it for one machine (store/rocksdb_store.h).
// Values are opaque here. The implementation wraps each in an envelope of format version and checksum. A damaged value
// is reported by table and key (DATA_LOSS) and never served. Threads: every method is safe from any thread, except an
// Iterator's, which belong to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

enum class Table {
  kMeta,         // format version, collection ids, aliases
  kCollections,  // settings by collection id
  kGenerations,  // records by collection, generation; adapters by collection, from, to
  kItems,        // head records by collection, external id; external ids by internal id
  kEmbeddings,   // z as float32 and uncertainty by collection, generation, internal id
  kOrder,        // backfill order, empty values: collection, generation, uncertainty descending, internal id
  kChanges,      // change log, which an index replays: operations by collection, sequence
  kInputs,       // raw inputs by collection, internal id
  kProbes,
  kJobs,
};
inline constexpr int kTableCount = 10;
std::string_view TableName(Table table);

enum class Durability {
  kDurable,  // Write returns after an fsync
  kProcess,  // the batch survives kill -9, but no power loss
};

// A batch of puts and deletes that takes effect as a whole or not at all, under conditions.
class WriteBatch {
 public:
  struct Operation {
    Table table;
    std::string key;
    std::optional<std::string> value;  // new value; nullopt deletes the key
  };
  // The batch applies only if the key holds exactly `value`, or does not exist for nullopt.
  struct Expectation {
    Table table;
    std::string key;
    std::optional<std::string> value;
  };

  void Reserve(size_t operations) { operations_.reserve(operations); }
  void Put(Table table, std::string key, std::string value) {
    operations_.push_back({table, std::move(key), std::move(value)});
  }
  void Delete(Table table, std::string key) { operations_.push_back({table, std::move(key), std::nullopt}); }
  void Expect(Table table, std::string key, std::optional<std::string> value) {
    expectations_.push_back({table, std::move(key), std::move(value)});
  }
  const std::vector<Operation>& operations() const { return operations_; }
  const std::vector<Expectation>& expectations() const { return expectations_; }
  bool empty() const { return operations_.empty(); }

 private:
  std::vector<Operation> operations_;
  std::vector<Expectation> expectations_;
};

// Walks keys of one table in ascending byte order, from a point-in-time view.
class Iterator {
 public:
  virtual ~Iterator() = default;
  // False at the end and after an error, which status() tells apart. DATA_LOSS names table and key of a damaged value.
  virtual bool Valid() const = 0;
  virtual absl::Status status() const = 0;
  virtual void Next() = 0;                     // REQUIRES: Valid()
  virtual std::string_view key() const = 0;    // key, until Next()
  virtual std::string_view value() const = 0;  // value with a verified checksum, until Next()
  // Moves past a damaged value, as Next does, and returns its key. nullopt where the walk ended otherwise.
  virtual std::optional<std::string> SkipDamaged() = 0;
};

struct StoreStats {
  uint64_t disk_bytes = 0;
  uint64_t memtable_bytes = 0;
  uint64_t stalled = 0;                   // 1 while writes are delayed or stopped, else 0
  uint64_t read_only = 0;                 // 1 from an I/O error other than a full disk until a restart, else 0
  uint64_t reserve_bytes = 0;             // bytes that are kept for operators; 0 while they are in use
  uint64_t growth_refused = 0;            // 1 while CheckGrowth refuses whatever is asked, else 0
  uint64_t background_errors_total = 0;   // number of failed flushes, compactions and manifest writes
  uint64_t background_resumes_total = 0;  // number of times that background work went on after such errors
  uint64_t syncs_total = 0;               // number of fsyncs for durable writes
  uint64_t writes_total = 0;              // number of written batches
  uint64_t estimated_keys = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // Applies the batch. ABORTED when an expectation fails (names table and key), RESOURCE_EXHAUSTED on a full disk,
  // UNAVAILABLE once the store has gone read-only after an I/O error of its log, and for the moments in which it
  // resumes after another error. The reserve gives its space to a batch that finds too little. Concurrent durable
  // writers share one fsync; a reader may see the batch shortly before it is acknowledged. A batch of expectations
  // alone is a check.
  virtual absl::Status Write(const WriteBatch& batch, Durability durability) = 0;

  // Asked before new data is written: items, orders, files of an index. OK where the disk has room for about `bytes`
  // above what deletes and operators may need. RESOURCE_EXHAUSTED names the free bytes and the needed ones.
  virtual absl::Status CheckGrowth(uint64_t bytes) const = 0;

  // Gives up the reserve where the disk has hardly more than `bytes` free, for an operator's call that writes files.
  virtual void MakeRoom(uint64_t bytes) = 0;

  // Makes every batch durable whose Write has returned, for writers that have work between the two calls. Concurrent
  // callers share one fsync. After an error and a restart the batches may be there or not, but never in part. Errors as
  // Write.
  virtual absl::Status Sync() = 0;

  // The value of a key. NOT_FOUND, or DATA_LOSS for a damaged value.
  virtual absl::StatusOr<std::string> Get(Table table, std::string_view key) const = 0;

  // One result per key, in order. NOT_FOUND has no text: each of a thousand new ids would pay for one.
  virtual std::vector<absl::StatusOr<std::string>> MultiGet(Table table, std::span<const std::string> keys) const = 0;

  // Iterates begin <= key < end (empty end: to the table's end) over a snapshot taken now. The store must outlive the
  // iterator.
  virtual std::unique_ptr<Iterator> Scan(Table table, std::string_view begin, std::string_view end) const = 0;

  // Removes begin <= key < end; cheap whatever its size. Used for dropped collections and trimmed change logs. Items,
  // embeddings, orders and inputs give their space back in the background, by compactions that this call begins.
  virtual absl::Status DeleteRange(Table table, std::string_view begin, std::string_view end) = 0;

  // A consistent copy (hard links where possible) in a folder that must not exist yet.
  virtual absl::Status Checkpoint(const std::string& folder) = 0;

  virtual StoreStats Stats() const = 0;
};

struct StoreOptions {
  // Block cache and memtables together. Cost: RAM. Raise it for large galleries. Fixed at start.
  int64_t memory_bytes = 256 << 20;
  // Threads for flush and compaction. Cost: CPU beside searches. Fixed at start.
  int background_threads = 2;
  // Space that is kept for deletes and operators once the disk is full (store/disk_reserve.h). Cost: disk. 0: none.
  int64_t reserve_bytes = int64_t{128} << 20;
  // A store that is damaged where acknowledged writes lie refuses to open (DATA_LOSS). true opens it all the same: the
  // log is cut at its first damage, a missing table's rows are lost, and the log of the process says what is. Rows in a
  // missing table answer DATA_LOSS.
  bool accept_damage = false;
  // INVALID_ARGUMENT names the field and the allowed range.
  absl::Status Validate() const;
};

// Opens or creates a store in `folder`. FAILED_PRECONDITION when the folder holds something else or a newer format, and
// names the needed version; UNAVAILABLE when another process has the store open; DATA_LOSS when it is damaged.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& folder, const StoreOptions& options = {});

}  // namespace lightcone
