#include "base/work_pool.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/cores.h"
#include "base/dcheck.h"

namespace lightcone {
namespace {

thread_local WorkPool* pool_of_thread = nullptr;  // null also within a long step

}  // namespace

WorkPool::LongStep::LongStep() {
  WorkPool* const pool = pool_of_thread;
  if (pool == nullptr) return;
  absl::MutexLock lock(&pool->mu_);
  granted_ = pool->long_steps_ < pool->threads_max_;
  if (!granted_) return;
  pool_ = std::exchange(pool_of_thread, nullptr);
  ++pool->long_steps_;
  if (!pool->queue_.empty()) pool->CallThread();
}

WorkPool::LongStep::~LongStep() {
  if (pool_ == nullptr) return;
  pool_of_thread = pool_;
  absl::MutexLock lock(&pool_->mu_);
  --pool_->long_steps_;
}

WorkPool::WorkPool(int threads_max, std::function<void()> begin)
    : threads_max_(static_cast<size_t>(threads_max)), begin_(std::move(begin)) {
  LC_DCHECK(threads_max >= 1);
  absl::MutexLock lock(&mu_);
  threads_.emplace_back([this] { WorkLoop(); });
}

WorkPool::~WorkPool() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mu_);
    LC_DCHECK(queue_.empty());
    stopping_ = true;
    first_turn_.SignalAll();
    any_turn_.SignalAll();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void WorkPool::Enqueue(Entry& entry, Clock::time_point due) {
  entry.turn = {due, turns_++};
  entry.node.key() = entry.turn;
  queue_.insert(std::move(entry.node));
  if (queue_.begin()->second == &entry) CallThread();
}

void WorkPool::Dequeue(Entry& entry) {
  if (entry.queued()) entry.node = queue_.extract(entry.turn);
}

void WorkPool::CallThread() {
  if (timed_) {
    first_turn_.Signal();  // The first turn may be another one.
  } else if (idle_ > 0) {
    any_turn_.Signal();
  } else if (threads_.size() < threads_max_ + long_steps_ && !stopping_) {
    try {
      threads_.emplace_back([this] { WorkLoop(); });
    } catch (const std::exception&) {  // No thread or no memory: those that are there do the work.
    }
  }
}

void WorkPool::WorkLoop() {
  pool_of_thread = this;
  begin_();
  absl::MutexLock lock(&mu_);
  while (!stopping_) {
    if (MayRun() && !queue_.empty() && queue_.begin()->first.first <= Clock::now()) {
      RunFirst();
      continue;
    }
    ++idle_;
    if (timed_ || queue_.empty() || !MayRun()) {  // The end of a step looks at the queue.
      any_turn_.Wait(&mu_);
    } else {
      timed_ = true;
      first_turn_.WaitWithTimeout(&mu_, absl::FromChrono(queue_.begin()->first.first - Clock::now()));
      timed_ = false;
    }
    --idle_;
  }
}

void WorkPool::RunFirst() {
  Entry& entry = *queue_.begin()->second;
  Dequeue(entry);
  entry.running = true;
  ++running_;
  entry.woken.store(false);
  if (!queue_.empty()) CallThread();
  mu_.Unlock();
  const absl::Duration wait = entry.step();
  mu_.Lock();
  entry.running = false;
  --running_;
  if (entry.removed) {
    step_ended_.SignalAll();
    return;
  }
  constexpr absl::Duration kWaitMax = absl::Hours(24 * 365);  // an infinite one would overflow the clock
  const Clock::time_point now = Clock::now();
  Enqueue(entry, entry.woken.load() ? now : now + absl::ToChronoMicroseconds(std::min(wait, kWaitMax)));
}

void WorkPool::Wake(Entry& entry) {
  if (entry.woken.exchange(true)) return;
  absl::MutexLock lock(&mu_);
  if (!entry.queued()) return;  // Another step follows the running one.
  const Clock::time_point now = Clock::now();
  if (entry.turn.first <= now) return;
  Dequeue(entry);
  Enqueue(entry, now);
}

void WorkPool::Remove(Entry& entry) {
  absl::MutexLock lock(&mu_);
  entry.removed = true;
  Dequeue(entry);
  while (entry.running) step_ended_.Wait(&mu_);
}

std::shared_ptr<WorkPool> SharedPool::Get() {
  absl::MutexLock lock(&mu_);
  std::shared_ptr<WorkPool> pool = pool_.lock();
  if (pool == nullptr) pool_ = pool = std::make_shared<WorkPool>(std::max(4, AvailableCores()), begin_);
  return pool;
}

RecurringWork::RecurringWork(std::shared_ptr<WorkPool> pool, std::function<absl::Duration()> step)
    : pool_(std::move(pool)) {
  entry_.step = std::move(step);
  WorkPool::Queue node;
  node.emplace(entry_.turn, &entry_);
  entry_.node = node.extract(node.begin());
  absl::MutexLock lock(&pool_->mu_);
  pool_->Enqueue(entry_, WorkPool::Clock::now());
}

RecurringWork::~RecurringWork() { pool_->Remove(entry_); }

}  // namespace lightcone
