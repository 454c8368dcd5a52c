#include "server/rpc/lanes.h"

#include <utility>

#include "base/priority.h"
#include "base/status.h"

namespace lightcone::server {

Lane::Lane(std::string name, const LaneOptions& options) : name_(std::move(name)), options_(options) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
}

absl::Status Lane::Submit(std::function<void()> job) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return Unavailable("the server is shutting down; try another replica or retry later");
  if (static_cast<int64_t>(queue_.size()) >= options_.queue_max) {
    ++rejected_;
    return ResourceExhausted(StrCat("the server is overloaded: ", queue_.size(), " calls wait in the ", name_,
                                    " queue; allowed: ", options_.queue_max, "; retry with backoff"));
  }
  queue_.push_back(std::move(job));
  ready_.Signal();
  return absl::OkStatus();
}

void Lane::Work() {
  if (options_.niceness > 0) StandBack(options_.niceness);
  for (;;) {
    std::function<void()> job;
    {
      absl::MutexLock lock(&mutex_);
      while (queue_.empty() && !stopping_) ready_.Wait(&mutex_);
      if (queue_.empty()) return;
      job = std::move(queue_.front());
      queue_.pop_front();
      ++running_;
    }
    job();
    job = nullptr;  // The job's data are gone before the lane is idle.
    absl::MutexLock lock(&mutex_);
    --running_;
  }
}

void Lane::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    ready_.SignalAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  threads_.clear();
}

LaneStats Lane::Stats() const {
  absl::MutexLock lock(&mutex_);
  return {name_, static_cast<int64_t>(queue_.size()), running_, rejected_};
}

}  // namespace lightcone::server
