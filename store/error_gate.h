// Keeps RocksDB from forgetting flushes when it meets an error.
//
// RocksDB 7.8.3 takes an error once its listeners have returned. A flush that it scheduled before and that begins after
// that is dropped, yet its memtable stays marked as queued: no later flush of it is scheduled, and DB::Resume waits for
// one for ever. So an error is held back until every scheduled flush has begun, and nothing may schedule another one
// until the error is taken:
//   - a writer that meets the error has the other writers wait behind it;
//   - a thread that flushes is the only one, and schedules its successor when it ends;
//   - any other thread closes the gate through which all calls pass that may schedule a flush.
// What hangs all the same is waited for a few seconds.
// Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "rocksdb/db.h"

namespace lightcone {

class ErrorGate {
 public:
  // Once the database is open. `db` must outlive the last error; nullptr: it is about to end.
  void Set(rocksdb::DB* db) { db_ = db; }

  // What `call` returns: a call of the database that may schedule a flush. Waits while the gate is closed.
  template <typename Call>
  rocksdb::Status Pass(const Call& call) {
    Enter();
    const rocksdb::Status status = call();
    Leave();
    return status;
  }

  // DB::Resume. REQUIRES: Set, one caller at a time.
  rocksdb::Status Resume();

  // For a listener: an error that stops background work is about to be taken. Holds none of RocksDB's locks.
  void AwaitFlushes();
  // For a listener: the calling thread is one of those that flush.
  static void MarkFlushThread();

 private:
  void Enter();
  void Leave();
  void Close();
  bool IsPositive(const std::string& property) const;

  std::atomic<rocksdb::DB*> db_{nullptr};
  absl::Mutex mutex_;
  int passing_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time open_from_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace lightcone
