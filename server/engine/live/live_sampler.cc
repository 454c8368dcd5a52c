#include "server/engine/live/live_sampler.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/mix.h"
#include "base/priority.h"
#include "base/processor_time.h"

namespace lightcone::server {
namespace {

constexpr int kSamplerNice = 19;

}  // namespace

LiveSampler::LiveSampler(const LiveRecallOptions& options, int cores)
    : options_(options), seconds_a_second_(options.capacity_share_max * cores) {
  if (options_.sample_share > 0 && seconds_a_second_ > 0) thread_ = std::thread([this] { Work(); });
}

LiveSampler::~LiveSampler() {
  ending_.store(true);
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

bool LiveSampler::Chosen() {
  if (!thread_.joinable()) return false;
  const uint64_t number = searches_.fetch_add(1, std::memory_order_relaxed);
  // So that no period of the callers meets one of the sampler.
  return static_cast<double>(Mixed(number) >> 11) * 0x1p-53 < options_.sample_share;
}

void LiveSampler::Offer(Repeat repeat) {
  absl::MutexLock lock(&mu_);
  if (stopping_ || waiting_.size() >= static_cast<size_t>(options_.queue_max)) {
    ++status_.dropped_total;
    return;
  }
  waiting_.push_back(std::move(repeat));
}

bool LiveSampler::WaitIdle(absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return waiting_.empty() && !running_; };
  return mu_.AwaitWithDeadline(absl::Condition(&idle), deadline);
}

LiveSamplerStatus LiveSampler::Status() const {
  absl::MutexLock lock(&mu_);
  return status_;
}

void LiveSampler::Work() {
  StandBack(kSamplerNice);
  TimeBudget budget(seconds_a_second_);
  CallContext context;
  context.cancelled = [this] { return ending_.load(std::memory_order_relaxed); };
  for (;;) {
    Repeat repeat;
    {
      absl::MutexLock lock(&mu_);
      const auto stopping = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopping_; };
      const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopping_ || !waiting_.empty(); };
      mu_.AwaitWithTimeout(absl::Condition(&stopping), budget.Wait(absl::Now()));
      mu_.Await(absl::Condition(&ready));
      if (stopping_) return;
      repeat = std::move(waiting_.front());
      waiting_.pop_front();
      running_ = true;
    }
    const absl::Time began = absl::Now();
    const absl::Duration before = ProcessorTimeOfThread();
    repeat(context);
    repeat = nullptr;  // This thread pays for freeing what the repetition holds.
    const absl::Duration cost = ProcessorTimeOfThread() - before;
    budget.Spend(began, cost);
    absl::MutexLock lock(&mu_);
    running_ = false;
    ++status_.repeated_total;
    status_.seconds_total += absl::ToDoubleSeconds(cost);
  }
}

}  // namespace lightcone::server
