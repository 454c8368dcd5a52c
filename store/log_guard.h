// Keeps RocksDB from touching a log that has failed. Debian's RocksDB ends the process when a log is written or synced
// after an error of its own, and it learns of an error later than the call that met it ends. So the file itself tells
// of its error: from then on no append and no sync begins, and before RocksDB hears of it, those of the other kind have
// ended. (Appends wait behind each other, and so do syncs.) A sync may already wait for that of a flush, which syncs
// logs that have ended: where the flush's sync fails, the file then says that it cannot be synced at all.
// Threads: every method is safe from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

namespace lightcone {

class LogGuard {
 public:
  enum Kind { kAppend, kSync };

  // `base` must outlive the guard; nullptr: the machine's environment. `failed` hears of every error of a log, with
  // the step ("write", "sync") that met it, in the thread that met it, and must not call the database.
  LogGuard(rocksdb::Env* base, std::function<void(const rocksdb::Status& error, std::string_view step)> failed);
  ~LogGuard();

  rocksdb::Env* env();  // environment for the database, which the guard must outlive

  // What `call` returns: a write of the database, or a sync of its log. Where a log has failed, the first error.
  template <typename Call>
  rocksdb::Status Run(Kind kind, const Call& call) {
    rocksdb::Status failure = Begin(kind);
    if (!failure.ok()) return failure;
    return End(kind, call());
  }

  // After a failure: whether all calls in Run have returned, so that RocksDB knows of what they met. Waits a while.
  bool AwaitQuiet() ABSL_LOCKS_EXCLUDED(mutex_);
  // A new log has taken the place of the one that failed.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Files;
  class File;

  rocksdb::Status Begin(Kind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  rocksdb::Status End(Kind kind, rocksdb::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns `status`, an error after all others have kept away.
  rocksdb::IOStatus Check(const rocksdb::IOStatus& status, Kind kind) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void(const rocksdb::Status& error, std::string_view step)> failed_;
  absl::Mutex mutex_;
  int running_[2] ABSL_GUARDED_BY(mutex_) = {0, 0};  // calls in Run that have not failed, by kind
  int failing_ ABSL_GUARDED_BY(mutex_) = 0;          // calls in Run that have failed
  rocksdb::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace lightcone
