// Chooses a share of the live searches and repeats them in a thread of low priority, within a share of the machine.
// Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// Spaces work out in time, so that what it costs stays below a share of what the machine could do in that time.
// Threads: one owner.
class TimeBudget {
 public:
  // `seconds_a_second`: of processor time that may be spent in a second, above 0.
  explicit TimeBudget(double seconds_a_second) : seconds_a_second_(seconds_a_second) {}
  // Zero or less: work may begin now.
  absl::Duration Wait(absl::Time now) const { return next_ - now; }
  // Work that began at `began` has cost so much processor time. What was not spent before is not saved up.
  void Spend(absl::Time began, absl::Duration cost) { next_ = std::max(next_, began) + cost / seconds_a_second_; }

 private:
  const double seconds_a_second_;
  absl::Time next_ = absl::InfinitePast();
};

class LiveSampler {
 public:
  // Runs on the sampler's thread; `context` is cancelled when the sampler ends.
  using Repeat = std::function<void(const CallContext& context)>;

  LiveSampler(const LiveRecallOptions& options, int cores);
  ~LiveSampler();  // Ends the repetition under way; those that wait are dropped.
  LiveSampler(const LiveSampler&) = delete;
  LiveSampler& operator=(const LiveSampler&) = delete;

  // Whether the search at hand is one of the sampled share. Costs one atomic addition.
  bool Chosen();
  // Takes a repetition; drops and counts it when too many wait.
  void Offer(Repeat repeat);
  // Until everything that was offered has been repeated; false when that took longer.
  bool WaitIdle(absl::Time deadline);

  LiveSamplerStatus Status() const;

 private:
  void Work();

  const LiveRecallOptions options_;
  const double seconds_a_second_;
  std::atomic<uint64_t> searches_{0};
  std::atomic<bool> ending_{false};

  mutable absl::Mutex mu_;
  std::deque<Repeat> waiting_ ABSL_GUARDED_BY(mu_);
  bool running_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  LiveSamplerStatus status_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace lightcone::server
