// A bounded set of threads that the background work of many owners shares: threads do not grow with owners.
//
// Each owner has a RecurringWork, whose step does one piece and says when the next one is due. Steps that are due run
// in the order in which they became due, so an owner with much to do goes behind the others after each piece. Threads:
// safe from any. A step of one work never runs twice at the same time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone {

class RecurringWork;

class WorkPool {
 public:
  // Starts one thread, and further ones as steps wait for one, up to `threads_max`. Each calls `begin` first.
  WorkPool(int threads_max, std::function<void()> begin);
  ~WorkPool();  // REQUIRES: no work is left.
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

 private:
  friend class RecurringWork;
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::function<absl::Duration()> step;
    std::pair<Clock::time_point, uint64_t> turn = {};  // key in queue_ while the entry is queued
    bool queued = false, running = false, removed = false;
    std::atomic<bool> woken = false;  // a step is due, whatever the running one returns
  };

  void Enqueue(Entry& entry, Clock::time_point due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Dequeue(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes sure that a thread waits for the first turn of the queue, as far as threads are left.
  void CallThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WorkLoop() ABSL_LOCKS_EXCLUDED(mu_);
  void RunFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wake(Entry& entry) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(Entry& entry) ABSL_LOCKS_EXCLUDED(mu_);

  const size_t threads_max_;
  const std::function<void()> begin_;
  absl::Mutex mu_;
  std::map<std::pair<Clock::time_point, uint64_t>, Entry*> queue_ ABSL_GUARDED_BY(mu_);
  uint64_t turns_ ABSL_GUARDED_BY(mu_) = 0;
  int idle_ ABSL_GUARDED_BY(mu_) = 0;        // threads that wait for work
  bool timed_ ABSL_GUARDED_BY(mu_) = false;  // one of them waits for the first turn of the queue
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  absl::CondVar first_turn_;  // the thread that waits for the first turn
  absl::CondVar any_turn_;    // the other idle threads
  absl::CondVar step_ended_;
};

// The pool of one kind of work in the process: it lives while somebody has it.
class SharedPool {
 public:
  // Each thread calls `begin` first.
  explicit SharedPool(std::function<void()> begin) : begin_(std::move(begin)) {}
  // The pool has a thread for each core, but at least four: a few large pieces of work do not hold all of them.
  std::shared_ptr<WorkPool> Get() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const std::function<void()> begin_;
  absl::Mutex mu_;
  std::weak_ptr<WorkPool> pool_ ABSL_GUARDED_BY(mu_);
};

// Work of one owner.
class RecurringWork {
 public:
  // `step` returns how long the next step may wait: zero sends it to the end of the queue, infinite waits for Wake. It
  // throws nothing. The first step is due at once.
  RecurringWork(std::shared_ptr<WorkPool> pool, std::function<absl::Duration()> step);
  ~RecurringWork();  // Waits for the running step. REQUIRES: the caller is not that step.
  RecurringWork(const RecurringWork&) = delete;
  RecurringWork& operator=(const RecurringWork&) = delete;

  // Makes a step due now; after the running one if there is one. Cheap when a step is due already.
  void Wake() { pool_->Wake(entry_); }

 private:
  const std::shared_ptr<WorkPool> pool_;
  WorkPool::Entry entry_;
};

}  // namespace lightcone
