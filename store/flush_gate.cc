#include "store/flush_gate.h"

#include <utility>

#include "absl/time/clock.h"

namespace lightcone {
namespace {

constexpr absl::Duration kBeginMax = absl::Seconds(2);  // time that Close waits for flushes to begin
// Time that DB::Resume has to tell RocksDB that flushes may begin: two locks of a mutex, and nothing else.
constexpr absl::Duration kResumeBegins = absl::Milliseconds(100);

}  // namespace

// RocksDB gives flushes, and nothing else, to the pool of high priority.
class FlushGate::Jobs final : public rocksdb::EnvWrapper {
 public:
  Jobs(rocksdb::Env* base, FlushGate* gate) : EnvWrapper(base), gate_(gate) {}
  const char* Name() const override { return "FlushGate"; }
  void Schedule(void (*run)(void*), void* argument, Priority priority, void* tag, void (*cancel)(void*)) override {
    if (priority != HIGH) return EnvWrapper::Schedule(run, argument, priority, tag, cancel);
    EnvWrapper::Schedule(&Run, new Job{gate_, run, cancel, argument}, priority, tag, &Cancel);
  }

 private:
  struct Job {
    FlushGate* gate;
    void (*run)(void*);
    void (*cancel)(void*);
    void* argument;
  };
  static void Run(void* raw) {
    const std::unique_ptr<Job> job(static_cast<Job*>(raw));
    job->gate->Pass();
    job->run(job->argument);
    job->gate->Leave();
  }
  static void Cancel(void* raw) {
    const std::unique_ptr<Job> job(static_cast<Job*>(raw));
    if (job->cancel != nullptr) job->cancel(job->argument);
  }

  FlushGate* const gate_;
};

FlushGate::FlushGate(rocksdb::Env* base, std::function<uint64_t()> running) : running_(std::move(running)) {
  env_ = std::make_unique<Jobs>(base == nullptr ? rocksdb::Env::Default() : base, this);
}

FlushGate::~FlushGate() = default;

void FlushGate::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    ++closings_;
  }
  const absl::Time limit = absl::Now() + kBeginMax;
  while (absl::Now() < limit) {
    const uint64_t running = running_();
    {
      absl::MutexLock lock(&mutex_);
      if (passed_ <= running) return;
    }
    absl::SleepFor(absl::Microseconds(200));
  }
}

rocksdb::Status FlushGate::Resume(const std::function<rocksdb::Status()>& resume) {
  uint64_t before = 0;
  {
    absl::MutexLock lock(&mutex_);
    before = closings_;
    pass_at_ = absl::Now() + kResumeBegins;
  }
  rocksdb::Status resumed = resume();
  absl::MutexLock lock(&mutex_);
  pass_at_ = absl::InfiniteFuture();
  if (!resumed.ok()) return resumed;
  if (closings_ != before) return rocksdb::Status::Busy("another error came meanwhile");
  closed_ = false;
  return resumed;
}

void FlushGate::Open() {
  absl::MutexLock lock(&mutex_);
  closed_ = false;
}

void FlushGate::Pass() {
  const auto opens = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !closed_ || pass_at_ != absl::InfiniteFuture();
  };
  const auto open = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !closed_ || pass_at_ == absl::InfiniteFuture();
  };
  absl::MutexLock lock(&mutex_);
  while (closed_ && absl::Now() < pass_at_) {
    mutex_.Await(absl::Condition(&opens));
    mutex_.AwaitWithDeadline(absl::Condition(&open), pass_at_);
  }
  ++passed_;
}

void FlushGate::Leave() {
  absl::MutexLock lock(&mutex_);
  --passed_;
}

}  // namespace lightcone
