#include "server/http/worker_pool.h"

#include <utility>

namespace lightcone::server {

WorkerPool::WorkerPool(int threads, size_t queue_max) : queue_max_(queue_max) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

bool WorkerPool::TryAdd(std::function<void()> job) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || jobs_.size() >= queue_max_) return false;
  jobs_.push_back(std::move(job));
  return true;
}

void WorkerPool::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerPool::Work() {
  for (;;) {
    std::function<void()> job;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !jobs_.empty(); };
      mutex_.Await(absl::Condition(&ready));
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace lightcone::server
