#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "base/dcheck.h"
#include "base/exceptions.h"

namespace lightcone::server {
namespace {

// The state that the threads of one ParallelFor share. It outlives the call: a helper may start after all work is done.
struct Loop {
  Loop(int64_t n, const std::function<void(int64_t)>* b) : count(n), body(b) {}

  // Takes indices until none is left.
  void Run() {
    int64_t did = 0;
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        (*body)(i);
      } catch (...) {
        const absl::Status thrown = StatusOfException();
        absl::MutexLock lock(&mu);
        status.Update(thrown);
      }
      ++did;
    }
    if (did == 0) return;
    absl::MutexLock lock(&mu);
    done += did;
  }

  const int64_t count;
  const std::function<void(int64_t)>* const body;  // body, valid while an index is left to take
  std::atomic<int64_t> next{0};
  absl::Mutex mu;
  int64_t done ABSL_GUARDED_BY(mu) = 0;
  absl::Status status ABSL_GUARDED_BY(mu);  // status of the first body that threw
};

}  // namespace

ThreadPool::ThreadPool(int threads) {
  LC_DCHECK(threads >= 1);
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status ThreadPool::ParallelFor(int64_t count, const std::function<void(int64_t)>& body) {
  const int64_t helpers = std::min<int64_t>(static_cast<int64_t>(threads_.size()), count - 1);
  auto loop = std::make_shared<Loop>(count, &body);
  if (helpers > 0) {
    absl::MutexLock lock(&mu_);
    try {
      for (int64_t i = 0; i < helpers; ++i) tasks_.push_back([loop] { loop->Run(); });
    } catch (const std::bad_alloc&) {
      // Fewer threads help: the caller still works, and waits for the helpers that it has.
    }
  }
  loop->Run();
  absl::MutexLock lock(&loop->mu);
  const auto finished = [&loop]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return loop->done == loop->count; };
  loop->mu.Await(absl::Condition(&finished));
  // The caller takes the status: a helper may drop the loop while the caller reads the message.
  return std::move(loop->status);
}

void ThreadPool::Work() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mu_);
      const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || !tasks_.empty(); };
      mu_.Await(absl::Condition(&ready));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace lightcone::server
