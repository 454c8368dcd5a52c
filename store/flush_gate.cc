#include "store/flush_gate.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lightcone {
namespace {

constexpr absl::Duration kBeginMax = absl::Seconds(2);  // time that Close waits for flushes to begin
// Time that DB::Resume has to tell RocksDB that flushes may begin. It takes the database's mutex once for that.
constexpr absl::Duration kResumeBegins = absl::Milliseconds(500);

}  // namespace

// A job may still leave when the database that scheduled it is gone, and the gate with it: jobs share the state.
class FlushGate::State {
 public:
  void Pass() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const absl::Time arrived = absl::Now();
    while (closed_) {
      absl::Time at = pass_at_;
      // A recovery that has failed ends soon, and what begins after it would be forgotten. It may also wait for this.
      if (closings_ != closings_before_) at = std::max(at, arrived + kResumeBegins);
      if (absl::Now() >= at) break;
      changed_.WaitWithDeadline(&mutex_, at);
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
    changed_.SignalAll();
  }
  void BeginResume() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closings_before_ = closings_;
    pass_at_ = absl::Now() + kResumeBegins;
    changed_.SignalAll();
  }
  // Whether the gate was not closed since BeginResume. Then success opens it.
  bool EndResume(bool success) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    pass_at_ = absl::InfiniteFuture();
    const bool calm = closings_ == closings_before_;
    if (success && calm) closed_ = false;
    changed_.SignalAll();
    return calm;
  }
  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    closed_ = false;
    changed_.SignalAll();
  }

 private:
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t closings_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t closings_before_ ABSL_GUARDED_BY(mutex_) = 0;                 // number of closings as DB::Resume began
  uint64_t passed_ ABSL_GUARDED_BY(mutex_) = 0;                          // flushes that passed and have not ended
  absl::Time pass_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // time from which a closed gate lets through
};

// RocksDB gives its flushes to the pool of high priority, with a tag; what it purges there has none.
class FlushGate::Jobs final : public rocksdb::EnvWrapper {
 public:
  Jobs(rocksdb::Env* base, std::shared_ptr<State> state) : EnvWrapper(base), state_(std::move(state)) {}
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
  env_ = std::make_unique<Jobs>(base == nullptr ? rocksdb::Env::Default() : base, state_);
}

FlushGate::~FlushGate() = default;

void FlushGate::Close() {
  state_->Close();
  const absl::Time limit = absl::Now() + kBeginMax;
  while (absl::Now() < limit) {
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
