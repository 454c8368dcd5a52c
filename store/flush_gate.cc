#include "store/flush_gate.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/trace.h"

namespace lightcone {
namespace {

constexpr int64_t kBeginMax = 2'000'000'000;  // nanoseconds that Close waits for flushes to begin
// Nanoseconds that DB::Resume has to tell RocksDB that flushes may begin. It takes the database's mutex once for that.
constexpr int64_t kResumeBegins = 500'000'000;
constexpr absl::Duration kLook = absl::Milliseconds(5);  // pause between two looks at a closed gate

std::atomic<int> gates{0};  // that there are

}  // namespace

// A job may still leave when the database that scheduled it is gone, and the gate with it: jobs share the state.
class FlushGate::State {
 public:
  void Pass() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const int64_t arrived = SteadyNanos();
    while (closed_) {
      int64_t at = pass_at_;
      // A recovery that has failed ends soon, and what begins after it would be forgotten. It may also wait for this.
      if (closings_ != closings_before_) at = std::max(at, arrived + kResumeBegins);
      if (SteadyNanos() >= at) break;
      // A condition variable's times follow a clock that may be set.
      mutex_.Unlock();
      absl::SleepFor(kLook);
      mutex_.Lock();
    }
    ++passed_;
  }
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --passed_;
  }
  uint64_t passed() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return passed_;
  }
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closed_ = !ended_;
    ++closings_;
  }
  void BeginResume() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closings_before_ = closings_;
    pass_at_ = SteadyNanos() + kResumeBegins;
  }
  // Whether the gate was not closed since BeginResume. Then success opens it.
  bool EndResume(bool success) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    pass_at_ = INT64_MAX;
    const bool calm = closings_ == closings_before_;
    if (success && calm) closed_ = false;
    return calm;
  }
  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    closed_ = false;
  }

 private:
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t closings_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t closings_before_ ABSL_GUARDED_BY(mutex_) = 0;  // number of closings as DB::Resume began
  uint64_t passed_ ABSL_GUARDED_BY(mutex_) = 0;           // flushes that passed and have not ended
  int64_t pass_at_ ABSL_GUARDED_BY(mutex_) = INT64_MAX;   // SteadyNanos from which a closed gate lets through
};

// RocksDB gives its flushes to the pool of high priority, with a tag; what it purges there has none.
class FlushGate::Jobs final : public rocksdb::EnvWrapper {
 public:
  Jobs(rocksdb::Env* base, std::shared_ptr<State> state) : EnvWrapper(base), state_(std::move(state)) {
    // A wrapper has a file system of its own, which gives every call to the environment and loses what it tells about
    // errors and options.
    file_system_ = base->GetFileSystem();
    system_clock_ = base->GetSystemClock();
  }
  const char* Name() const override { return "FlushGate"; }
  void Schedule(void (*run)(void*), void* argument, Priority priority, void* tag, void (*cancel)(void*)) override {
    if (priority != HIGH || tag == nullptr) return EnvWrapper::Schedule(run, argument, priority, tag, cancel);
    EnvWrapper::Schedule(&Run, new Job{state_, run, cancel, argument}, priority, tag, &Cancel);
  }

 private:
  struct Job {
    std::shared_ptr<State> state;
    void (*run)(void*);
    void (*cancel)(void*);
    void* argument;
  };
  static void Run(void* raw) {
    const std::unique_ptr<Job> job(static_cast<Job*>(raw));
    job->state->Pass();
    job->run(job->argument);
    job->state->Leave();
  }
  static void Cancel(void* raw) {
    const std::unique_ptr<Job> job(static_cast<Job*>(raw));
    if (job->cancel != nullptr) job->cancel(job->argument);
  }

  const std::shared_ptr<State> state_;
};

FlushGate::FlushGate(rocksdb::Env* base, std::function<uint64_t()> running)
    : running_(std::move(running)), state_(std::make_shared<State>()) {
  if (base == nullptr) base = rocksdb::Env::Default();
  env_ = std::make_unique<Jobs>(base, state_);
  // All databases share the pool. A flush that waits at one gate must not keep the others' from beginning.
  base->IncBackgroundThreadsIfNeeded(++gates, rocksdb::Env::HIGH);
}

FlushGate::~FlushGate() { --gates; }

void FlushGate::Close() {
  state_->Close();
  const int64_t limit = SteadyNanos() + kBeginMax;
  while (SteadyNanos() < limit) {
    const uint64_t passed = state_->passed();  // asked first: what ends in between makes for another look
    if (passed <= running_()) return;
    absl::SleepFor(absl::Microseconds(200));
  }
}

rocksdb::Status FlushGate::Resume(const std::function<rocksdb::Status()>& resume) {
  state_->BeginResume();
  rocksdb::Status resumed = resume();
  const bool calm = state_->EndResume(resumed.ok());
  if (resumed.ok() && !calm) return rocksdb::Status::Busy("another error came meanwhile");
  return resumed;
}

void FlushGate::End() { state_->End(); }

}  // namespace lightcone
