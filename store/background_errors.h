// Errors of RocksDB's background work. An error of a flush, a compaction or the manifest has lost nothing: the log
// holds every record. Such an error is made one that DB::Resume ends, and is told to whoever resumes. An error that
// touched a log is told as what it is. Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "rocksdb/listener.h"

namespace lightcone {

// Whether a write was refused for an error of background work, before it reached the log.
inline bool IsOfBackgroundWork(const rocksdb::Status& refused) {
  return refused.severity() == rocksdb::Status::Severity::kHardError || refused.IsIncomplete();
}

class BackgroundErrors final : public rocksdb::EventListener {
 public:
  struct Told {
    std::function<void()> resumable;                           // an error waits to be resumed
    std::function<void(const rocksdb::Status& error)> of_log;  // a log may have lost a record
    std::function<bool()> log_full;  // whether the log has found no room, and has not been replaced since
    std::function<void()> stops;     // RocksDB takes an error next, and begins no background work from then on
  };
  // The functions are called from RocksDB's threads. The first two must not call the database.
  BackgroundErrors(std::string folder, Told told) : folder_(std::move(folder)), told_(std::move(told)) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  // RocksDB's own recovery looks at the disk every 5 seconds and wants more room than this store needs.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* auto_recovery) override {
    *auto_recovery = false;
  }

  // Time until DB::Resume is due. Infinite where no error waits.
  absl::Duration UntilResume(absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool full_disk() const ABSL_LOCKS_EXCLUDED(mutex_);  // the waiting error stopped writes for want of space
  // Runs `write`. Where writes must wait for background work, and an error of that work waits to be resumed, RocksDB
  // refuses them instead: `write` then runs again after the next DB::Resume, for some seconds.
  rocksdb::Status Outlast(const std::function<rocksdb::Status()>& write) ABSL_LOCKS_EXCLUDED(mutex_);
  // A write met an error of background work. RocksDB tells an error before it takes it: a DB::Resume in between finds
  // nothing to do, and another one is due.
  void Meet() ABSL_LOCKS_EXCLUDED(mutex_);
  // The outcome of a DB::Resume.
  void Resumed(const rocksdb::Status& outcome) ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t errors() const { return errors_.load(); }
  uint64_t resumes() const { return resumes_.load(); }

 private:
  const std::string folder_;
  const Told told_;
  mutable absl::Mutex mutex_;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool full_disk_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time last_error_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time due_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  std::atomic<uint64_t> errors_{0};
  std::atomic<uint64_t> resumes_{0};
};

}  // namespace lightcone
