// Asks again for flushes that RocksDB has forgotten. RocksDB 7.8.3 drops a flush that it scheduled before an error and
// that begins after it: the request stays in its queue, and nothing runs it. DB::Resume then waits for it for ever, and
// so do writes once memtables are full. Every further request runs the oldest one in the queue. So where a memtable
// waits for its flush and none runs, a few requests at once empty the queue: the last of them find nothing to do.
// Threads: one of its own; constructor and destructor belong to the owner.
// REQUIRES: the database flushes all tables at once (atomic_flush): else a table with a request in the queue takes
// none.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "rocksdb/db.h"

namespace lightcone {

class FlushWatch {
 public:
  // `db` and the handles must outlive it. `may_flush`: whether RocksDB can run a flush, since no error waits to be
  // resumed or DB::Resume runs; any thread may call it.
  FlushWatch(rocksdb::DB* db, std::vector<rocksdb::ColumnFamilyHandle*> families, std::function<bool()> may_flush);
  ~FlushWatch();
  FlushWatch(const FlushWatch&) = delete;
  FlushWatch& operator=(const FlushWatch&) = delete;

 private:
  void Run();
  bool Forgotten() const;  // a memtable waits for its flush, and none runs
  void AskAgain();

  rocksdb::DB* const db_;
  const std::vector<rocksdb::ColumnFamilyHandle*> families_;
  const std::function<bool()> may_flush_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lightcone
