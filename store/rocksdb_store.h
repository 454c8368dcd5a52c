// RocksDB behind Store, and the seam by which tests put faults under it. Applications call OpenStore (store/store.h).
//
// A write appends the batch to RocksDB's log and memtables without a sync. A conditional batch holds an exclusive lock
// together with its checks; others hold a shared lock. A durable writer then waits in GroupSync for the sync that
// covers its batch. Readers may therefore see a durable write shortly before it is acknowledged, and a power loss at
// that moment removes the write. A writer that builds on such a value is acknowledged by a sync that covers both. After
// a failed sync or append no write is acknowledged: writes answer UNAVAILABLE until the store is reopened, and reads
// continue. A full disk answers RESOURCE_EXHAUSTED. Once there is space, the store's own thread resumes RocksDB, at
// once where a write waits, and flushes every memtable; the flush makes durable what the failed log may have lost. An
// error of background work that touched no log is resumed by that thread (store/background_errors.h). A write that was
// answered with an error of the disk may therefore be there or not, but never in part.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"

namespace rocksdb {
class Env;
}

namespace lightcone {

struct StoreInternals {
  rocksdb::Env* env = nullptr;  // environment that outlives the store; nullptr: the machine's
  absl::Duration recovery_interval_min = absl::Seconds(1);  // time between attempts to resume after a full disk
  absl::Duration watch_interval = absl::Milliseconds(500);  // time between looks at the disk
  std::function<int64_t()> free_bytes = {};                 // stands for what the disk has free; empty: what it has
  bool compacts = true;                                     // false: tables stay as they are
};

absl::StatusOr<std::unique_ptr<Store>> OpenStoreWith(const std::string& folder, const StoreOptions& options,
                                                     const StoreInternals& internals);

}  // namespace lightcone
