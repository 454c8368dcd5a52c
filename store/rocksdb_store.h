// RocksDB behind Store, and the seam by which tests put faults under it. Applications call OpenStore (store/store.h).
//
// A write: the batch is appended to RocksDB's log and memtables without a sync, conditional batches under an exclusive
// lock together with their checks, all others under a shared one. A durable writer then waits in GroupSync for the sync
// that covers it. So readers may see a durable write shortly before it is acknowledged, and a power loss in that moment
// takes it away again; a writer that builds on such a value is itself acknowledged only by a sync that covers both.
// After a failed sync or append nothing is acknowledged any more: writes answer UNAVAILABLE until the store is opened
// again, reads go on. A full disk answers RESOURCE_EXHAUSTED; once space is back the next write resumes RocksDB and
// flushes every memtable, which makes durable what the failed log may have lost. A write that was answered with an
// error of the disk may therefore be there or not, but always whole.
#pragma once

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
  rocksdb::Env* env = nullptr;                              // nullptr: the machine's. Must outlive the store.
  absl::Duration recovery_interval_min = absl::Seconds(1);  // Between attempts to resume after a full disk.
};

absl::StatusOr<std::unique_ptr<Store>> OpenStoreWith(const std::string& folder, const StoreOptions& options,
                                                     const StoreInternals& internals);

}  // namespace lightcone
