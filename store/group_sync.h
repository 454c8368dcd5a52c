// Group commit: writers that have appended to the log wait here until one sync covers them. The first waiter syncs for
// all writers that have arrived; later ones share the next sync. Knows nothing of RocksDB. Threads: safe.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace lightcone {

class GroupSync {
 public:
  // `sync` makes everything appended before its call durable; one call runs at a time.
  explicit GroupSync(std::function<absl::Status()> sync) : sync_(std::move(sync)) {}

  // Call after the append has returned. OK once a sync that began after this call's start has succeeded. After a
  // failure no writer is acknowledged: a later successful sync proves nothing about pages that an earlier one lost.
  absl::Status Commit() ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes every waiting and later Commit fail with `failure`. The first failure stays until Clear; a worse one replaces
  // a full disk.
  void Fail(const absl::Status& failure) ABSL_LOCKS_EXCLUDED(mutex_);

  // The caller has made everything that was appended so far durable in another way.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status failure() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t syncs() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::function<absl::Status()> sync_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  uint64_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;  // number of writers that called Commit
  uint64_t synced_ ABSL_GUARDED_BY(mutex_) = 0;   // number of writers, in order of arrival, that are durable
  uint64_t syncs_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
  bool syncing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);       // current failure; OK while healthy
  absl::Status last_failure_ ABSL_GUARDED_BY(mutex_);  // error of writers that still waited when Clear was called
};

}  // namespace lightcone
