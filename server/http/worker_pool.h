// A few threads for jobs that may wait, with a bounded queue. Threads: every method is safe from any thread but a
// job's.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lightcone::server {

class WorkerPool {
 public:
  WorkerPool(int threads, size_t queue_max);
  ~WorkerPool() { Stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // false: the queue is full, or the pool has stopped. A job throws nothing.
  bool TryAdd(std::function<void()> job);
  // Drops the jobs that wait and returns when those that run have ended. Idempotent.
  void Stop();

 private:
  void Work();

  const size_t queue_max_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lightcone::server
