// A fixed set of threads on which the parts of one call run side by side.
// Threads: ParallelFor may be called from any thread, also by several at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace lightcone::server {

class ThreadPool {
 public:
  // `threads` >= 1, the caller of ParallelFor included: 1 runs everything in the caller.
  explicit ThreadPool(int threads);
  // REQUIRES: no ParallelFor is running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls body(0) .. body(count - 1), each once and in any order, and returns when all have returned. The caller works
  // too, so progress never depends on a free thread. The first exception of a body becomes the status; other bodies
  // still run.
  absl::Status ParallelFor(int64_t count, const std::function<void(int64_t)>& body);

  // Number of threads that work on one ParallelFor.
  int threads() const { return static_cast<int>(threads_.size()) + 1; }

 private:
  void Work();

  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lightcone::server
