// Lanes: bounded executors that keep kinds of work from starving each other. A search never waits behind an operator's
// rebuild, and a full lane refuses at once. Threads: every method is safe from any thread, except Stop, which is called
// once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace lightcone::server {

struct LaneOptions {
  int threads = 4;           // Calls that run at once. Cost: a stack and, when busy, CPU beside the others. At start.
  int64_t queue_max = 1024;  // Calls that may wait. A full queue answers RESOURCE_EXHAUSTED. At start.
  int niceness = 0;          // 0 .. 19: how far its threads stand back behind others of the process
};

struct LaneStats {
  std::string name;
  int64_t queued = 0;
  int64_t running = 0;
  uint64_t rejected_total = 0;
};

class Lane {
 public:
  Lane(std::string name, const LaneOptions& options);
  ~Lane() { Stop(); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Runs `job` later on a thread of the lane. RESOURCE_EXHAUSTED when the queue is full, UNAVAILABLE after Stop; the
  // lane then drops the job.
  absl::Status Submit(std::function<void()> job);
  // Runs the queued jobs, then ends the threads. Submit refuses from now on.
  void Stop();
  LaneStats Stats() const;

 private:
  void Work();

  const std::string name_;
  const LaneOptions options_;
  mutable absl::Mutex mutex_;
  absl::CondVar ready_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rejected_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lightcone::server
