// Keeps flushes from beginning while an error stops RocksDB's background work. RocksDB 7.8.3 forgets a flush that it
// scheduled before it took an error and that begins after that: the memtable stays marked as queued, and DB::Resume
// waits for its flush for ever. So flushes wait at a gate in front of RocksDB: it closes before RocksDB takes an error,
// and opens when DB::Resume allows flushes again. Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "rocksdb/env.h"

namespace lightcone {

class FlushGate {
 public:
  // `base` must outlive the gate; nullptr: the machine's environment. `running` gives the number of flushes that
  // RocksDB has begun; it is called without the gate's lock.
  FlushGate(rocksdb::Env* base, std::function<uint64_t()> running);
  ~FlushGate();

  rocksdb::Env* env() const { return env_.get(); }  // environment for the database, which the gate must outlive

  // Before RocksDB takes an error that stops background work: flushes that have not begun wait from now on. Returns
  // once those that passed the gate before have begun, or after some seconds. Must not hold what a flush needs to
  // begin.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs `resume`, which is DB::Resume. That waits for the flushes that wait here, once it has told RocksDB to let them
  // through; so they pass soon after it began. Opens the gate where it succeeds. BUSY where the gate was closed
  // meanwhile: it stays closed, and another DB::Resume is due.
  rocksdb::Status Resume(const std::function<rocksdb::Status()>& resume) ABSL_LOCKS_EXCLUDED(mutex_);
  // For the end of the database.
  void Open() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Jobs;

  void Pass() ABSL_LOCKS_EXCLUDED(mutex_);   // a flush begins, perhaps after a while
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);  // it has ended

  const std::function<uint64_t()> running_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t closings_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t passed_ ABSL_GUARDED_BY(mutex_) = 0;                          // flushes that passed and have not ended
  absl::Time pass_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // time from which a closed gate lets through
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace lightcone
