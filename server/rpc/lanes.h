// Lanes: bounded executors that keep kinds of work from starving each other. A search never waits behind an operator's
// rebuild. A lane refuses at once what it could not begin in time. Threads: every method is safe from any thread,
// except Stop, which is called once.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/rpc/admission.h"

namespace lightcone::server {

struct LaneOptions {
  int threads = 4;           // Calls that run at once. Cost: a stack and, when busy, CPU beside the others. At start.
  int64_t queue_max = 1024;  // Calls that may wait. A full queue answers RESOURCE_EXHAUSTED. At start.
  int niceness = 0;          // 0 .. 19: how far its threads stand back behind others of the process
  WaitBounds bounds = {};    // Bounds of the wait. At start.
};

struct LaneStats {
  // Upper bounds in seconds of the counted waits.
  static constexpr std::array kWaitSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                              0.1,    0.25,  0.5,    1.0,   2.5,  5.0,   10.0};

  std::string name;
  int64_t queued = 0;
  int64_t running = 0;
  bool overloaded = false;                            // More calls come than are done, and the tighter bound holds.
  uint64_t rejected_total = 0;                        // calls refused with RESOURCE_EXHAUSTED
  std::array<uint64_t, kRefusals> refused = {};       // calls that were not begun, by Refusal
  std::array<uint64_t, kWaitSeconds.size()> waits{};  // begun calls that waited so long, each in one bucket
  uint64_t begun = 0;                                 // all begun calls, also those beyond the last bucket
  double wait_seconds_sum = 0;                        // waits of all begun calls together
};

struct LaneJob {
  // Called exactly once. OK: on a thread of the lane, to do the work. Otherwise on any thread, within Submit or later,
  // and must not block: RESOURCE_EXHAUSTED with the time after which to retry, DEADLINE_EXCEEDED, UNAVAILABLE.
  std::function<void(const absl::Status& admitted)> run;
  absl::Time deadline = absl::InfiniteFuture();  // of the lane's clock
  bool urgent = false;                           // Begins before all others that wait.
};

class Lane {
 public:
  Lane(std::string name, const LaneOptions& options, std::function<absl::Time()> clock = absl::Now);
  ~Lane() { Stop(); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Runs `job` later on a thread of the lane, or refuses it: RESOURCE_EXHAUSTED when the queue is full or the wait
  // would be too long, DEADLINE_EXCEEDED when its deadline is over, UNAVAILABLE after Stop.
  void Submit(LaneJob job);
  // Runs the queued jobs, then ends the threads. Submit refuses from now on.
  void Stop();
  LaneStats Stats() const;

 private:
  struct Waiting {
    LaneJob job;
    absl::Time since;
  };
  using Refused = std::vector<std::pair<LaneJob, absl::Status>>;

  void Work();
  absl::Status Enqueue(LaneJob* job, Refused* dropped);
  int64_t Queued() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Takes the job that is to run next. False: there is none.
  bool TakeNext(LaneJob* job, Refused* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropExpired(absl::Time now, Refused* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the refusal and words it.
  absl::Status Refuse(Refusal refusal, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountWait(absl::Duration waited) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const LaneOptions options_;
  const std::function<absl::Time()> clock_;
  mutable absl::Mutex mutex_;
  absl::CondVar ready_;
  std::deque<Waiting> urgent_ ABSL_GUARDED_BY(mutex_);
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_expiry_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // no deadline of a queued job is earlier
  Admission admission_ ABSL_GUARDED_BY(mutex_);
  LaneStats stats_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lightcone::server
