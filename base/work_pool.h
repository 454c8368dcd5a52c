// A bounded set of threads that the background work of many owners shares: threads do not grow with owners.
//
// Each owner has a RecurringWork, whose step does one piece and says when the next one is due. Steps that are due run
// in the order in which they became due, so an owner with much to do goes behind the others after each piece. Threads:
// safe from any. A step of one work never runs twice at the same time.
//
// A piece of work that may take hours is done within a LongStep, whose thread does not count.
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
  // Starts one thread, and further ones as steps wait for one. `threads_max` steps run at a time, long ones left out.
  // Each thread calls `begin` first.
  WorkPool(int threads_max, std::function<void()> begin);
  ~WorkPool();  // REQUIRES: no work is left.
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // While one lives in a step, the pool has one more thread for other steps. At most `threads_max` have that at a time;
  // `granted` is false for a further one. Outside the steps of a pool, and within another one, it changes nothing.
  class LongStep {
   public:
    LongStep();
    ~LongStep();
    LongStep(const LongStep&) = delete;
    LongStep& operator=(const LongStep&) = delete;

    bool granted() const { return granted_; }

   private:
    WorkPool* pool_ = nullptr;  // the pool that has one more thread; null: none
    bool granted_ = true;
  };

 private:
  friend class RecurringWork;
  using Clock = std::chrono::steady_clock;
  struct Entry;
  using Turn = std::pair<Clock::time_point, uint64_t>;
  using Queue = std::map<Turn, Entry*>;
  struct Entry {
    bool queued() const { return node.empty(); }

    std::function<absl::Duration()> step;
    Turn turn = {};         // key in queue_ while the entry is queued
    Queue::node_type node;  // its node while it is not queued: entering the queue takes no memory
    bool running = false, removed = false;
    std::atomic<bool> woken = false;  // a step is due, whatever the running one returns
  };

  void Enqueue(Entry& entry, Clock::time_point due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Dequeue(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayRun() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return running_ - long_steps_ < threads_max_; }
  // Makes sure that a thread waits for the first turn of the queue, as far as threads are left.
  void CallThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WorkLoop() ABSL_LOCKS_EXCLUDED(mu_);
  void RunFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wake(Entry& entry) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(Entry& entry) ABSL_LOCKS_EXCLUDED(mu_);

  const size_t threads_max_;
  const std::function<void()> begin_;
  absl::Mutex mu_;
  Queue queue_ ABSL_GUARDED_BY(mu_);
  uint64_t turns_ ABSL_GUARDED_BY(mu_) = 0;
  size_t running_ ABSL_GUARDED_BY(mu_) = 0;     // steps
  size_t long_steps_ ABSL_GUARDED_BY(mu_) = 0;  // those of them whose threads do not count
  int idle_ ABSL_GUARDED_BY(mu_) = 0;           // threads that wait for work
  bool timed_ ABSL_GUARDED_BY(mu_) = false;     // one of them waits for the first turn of the queue
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
  // The pool has a thread for each core, but at least four, and as many for long steps.
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
