#include "server/rpc/lanes.h"

#include <algorithm>

#include "base/priority.h"
#include "base/retry_after.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kRetryMin = absl::Milliseconds(50);  // least pause that a refused client is told
constexpr absl::Duration kRetryMax = absl::Seconds(5);

std::string Rounded(absl::Duration time) {
  return StrCat(absl::ToInt64Milliseconds(absl::Ceil(time, absl::Milliseconds(1))), " ms");
}

}  // namespace

Lane::Lane(std::string name, const LaneOptions& options, std::function<absl::Time()> clock)
    : name_(std::move(name)),
      options_(options),
      clock_(std::move(clock)),
      admission_(std::max(1, options.threads), options.bounds) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
}

int64_t Lane::Queued() const { return static_cast<int64_t>(queue_.size() + urgent_.size()); }

void Lane::Submit(LaneJob job) {
  Refused dropped;
  const absl::Status queued = Enqueue(&job, &dropped);
  for (auto& [late, why] : dropped) late.run(why);
  if (!queued.ok()) job.run(queued);
}

absl::Status Lane::Enqueue(LaneJob* job, Refused* dropped) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return Unavailable("the server is shutting down; try another replica or retry later");
  const absl::Time now = clock_();
  if (job->deadline <= now) return Refuse(Refusal::kExpired, now);
  // Those that nobody waits for take no place of others.
  DropExpired(now, dropped);
  const bool free = stats_.running + Queued() < options_.threads;
  if (job->urgent) {
    if (static_cast<int64_t>(urgent_.size()) >= options_.queue_max) return Refuse(Refusal::kQueueFull, now);
  } else if (free) {
    admission_.NoteDirect();
  } else {
    if (Queued() >= options_.queue_max) return Refuse(Refusal::kQueueFull, now);
    if (const auto refusal = admission_.Offer(now, job->deadline, Queued())) return Refuse(*refusal, now);
  }
  next_expiry_ = std::min(next_expiry_, job->deadline);
  (job->urgent ? urgent_ : queue_).push_back({std::move(*job), now});
  ready_.Signal();
  return absl::OkStatus();
}

absl::Status Lane::Refuse(Refusal refusal, absl::Time now) {
  ++stats_.refused[static_cast<size_t>(refusal)];
  if (refusal == Refusal::kExpired) return DeadlineExceeded("the call's deadline was over before its work began");
  ++stats_.rejected_total;
  const absl::Duration wait = admission_.ExpectedWait(Queued());
  const absl::Duration retry = std::clamp(wait, kRetryMin, kRetryMax);
  std::string why = StrCat("the server is overloaded: ", Queued(), " calls wait in the ", name_, " queue");
  if (refusal == Refusal::kQueueFull) {
    why += StrCat("; allowed: ", options_.queue_max);
  } else if (refusal == Refusal::kWait) {
    why += StrCat(", where a call would wait about ", Rounded(wait), "; allowed: ", Rounded(admission_.Bound(now)));
  } else {
    why += StrCat(", where a call would wait about ", Rounded(wait), ", and its deadline is sooner");
  }
  return WithRetryAfter(ResourceExhausted(StrCat(why, "; retry with backoff, in ", Rounded(retry), " at the earliest")),
                        retry);
}

void Lane::DropExpired(absl::Time now, Refused* dropped) {
  if (now < next_expiry_) return;
  next_expiry_ = absl::InfiniteFuture();
  for (std::deque<Waiting>* queue : {&urgent_, &queue_}) {
    std::deque<Waiting> kept;
    for (Waiting& waiting : *queue) {
      if (waiting.job.deadline <= now) {
        dropped->emplace_back(std::move(waiting.job), Refuse(Refusal::kExpired, now));
      } else {
        next_expiry_ = std::min(next_expiry_, waiting.job.deadline);
        kept.push_back(std::move(waiting));
      }
    }
    queue->swap(kept);
  }
}

bool Lane::TakeNext(LaneJob* job, Refused* dropped) {
  const absl::Time now = clock_();
  while (Queued() > 0) {
    std::deque<Waiting>& from = urgent_.empty() ? queue_ : urgent_;
    Waiting next = std::move(from.front());
    from.pop_front();
    std::optional<Refusal> refusal;
    if (next.job.deadline <= now) {
      refusal = Refusal::kExpired;
    } else if (!next.job.urgent) {
      refusal = admission_.Take(now, next.since, next.job.deadline);
    }
    if (!refusal) {
      CountWait(now - next.since);
      *job = std::move(next.job);
      return true;
    }
    dropped->emplace_back(std::move(next.job), Refuse(*refusal, now));
  }
  return false;
}

void Lane::CountWait(absl::Duration waited) {
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(waited));
  const auto& bounds = LaneStats::kWaitSeconds;
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), seconds);
  if (bucket != bounds.end()) ++stats_.waits[static_cast<size_t>(bucket - bounds.begin())];
  ++stats_.begun;
  stats_.wait_seconds_sum += seconds;
}

void Lane::Work() {
  if (options_.niceness > 0) StandBack(options_.niceness);
  for (;;) {
    LaneJob job;
    Refused dropped;
    bool taken = false;
    {
      absl::MutexLock lock(&mutex_);
      while (Queued() == 0 && !stopping_) ready_.Wait(&mutex_);
      if (Queued() == 0) return;
      taken = TakeNext(&job, &dropped);
      if (taken) ++stats_.running;
    }
    for (auto& [late, why] : dropped) late.run(why);
    if (!taken) continue;
    const absl::Time began = clock_();
    job.run(absl::OkStatus());
    job.run = nullptr;  // The job's data are gone before the lane is idle.
    absl::MutexLock lock(&mutex_);
    --stats_.running;
    admission_.NoteEnd(clock_() - began);
  }
}

void Lane::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    ready_.SignalAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  threads_.clear();
}

LaneStats Lane::Stats() const {
  absl::MutexLock lock(&mutex_);
  LaneStats stats = stats_;
  stats.name = name_;
  stats.queued = Queued();
  stats.overloaded = admission_.Overloaded(clock_());
  return stats;
}

}  // namespace lightcone::server
