#include "index/life/builder.h"

#include <algorithm>
#include <utility>

#include "base/exceptions.h"
#include "base/status.h"
#include "index/life/checkpoint.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

constexpr absl::Duration kLookForDamageEvery = absl::Seconds(1);  // a search that meets damage raises a flag
constexpr absl::Duration kCheckStep = absl::Milliseconds(500);    // reading of files for a flush in one step
constexpr absl::Duration kDeferMax = absl::Seconds(10);           // longest wait for the end of a burst

}  // namespace

absl::Duration Builder::Step() {
  absl::Status status;
  try {
    if (phase_ == Phase::kIdle) {
      if (const absl::Duration left = IdleLeft(); left > absl::ZeroDuration()) return left;
      phase_ = Phase::kBurst;
      burst_until_ = absl::Now() + kDeferMax;
      rewrites_.Finish();
      rewrites_.Start();
    }
    if (phase_ == Phase::kBurst) {
      if (const absl::Duration left = BurstLeft(); left > absl::ZeroDuration()) return left;
      BeginWork();
    }
    const absl::StatusOr<std::optional<absl::Duration>> next = WorkOnce();
    status = next.status();
    if (status.ok() && next->has_value()) return **next;
  } catch (...) {  // Out of memory ends neither the process nor the waiting of a flush.
    status = StatusOfException();
  }
  if (state_.stopping()) return absl::InfiniteDuration();
  EndWork(std::move(status));
  return absl::ZeroDuration();
}

absl::Duration Builder::IdleLeft() {
  const bool failing = retry_ != absl::ZeroDuration();
  // A rewrite that ends is no reason to try again what fails.
  if (failing) rewrites_.Finish();
  absl::MutexLock lock(&state_.mu);
  if (state_.stopping()) return absl::InfiniteDuration();
  // What failed is not tried again for every write that comes: a full disk would be filled over and over. Where only
  // damage could not be mended, the rows of writes are sealed all the same.
  const bool due =
      failing ? state_.flush.pending() || (state_.builder.due && state_.builds.sealing_error.ok() && state_.Crowded())
              : state_.builder.due || checks_.AnyDamaged() || rewrites_.IsDone();
  const absl::Duration left =
      std::min(idle_until_ - absl::Now(), failing ? absl::InfiniteDuration() : rewrites_.NextTry());
  if (!due && left > absl::ZeroDuration()) return std::min(left, kLookForDamageEvery);
  state_.builder.due = false;
  flushes_.Take();
  return absl::ZeroDuration();
}

absl::Duration Builder::BurstLeft() {
  while (true) {
    {
      absl::MutexLock lock(&state_.mu);
      if (state_.stopping() || state_.flush.pending() || checks_.AnyDamaged()) return absl::ZeroDuration();
      if (!rewrites_.IsDone()) return load_.BurstLeft(burst_until_);
    }
    rewrites_.Finish();
    rewrites_.Start();
  }
}

void Builder::BeginWork() {
  checks_.LookAtFiles();
  looked_ = 0;
  failed_.clear();
  phase_ = Phase::kWork;
}

void Builder::LookAtFilesForFlush() {
  {
    absl::MutexLock lock(&state_.mu);
    if (!state_.flush.pending() || state_.flush.asked <= looked_) return;
    looked_ = state_.flush.asked;
    failed_.clear();  // A flush does not wait for another try.
  }
  checks_.LookAtFiles();
}

std::optional<BuildJob> Builder::BeginSeal() {
  const absl::Status unmended = failed_.empty() ? absl::OkStatus() : failed_.begin()->second;
  absl::MutexLock lock(&state_.mu);
  state_.builds.mending_error = unmended;
  if (!state_.flush.taken() && state_.flush.asked <= looked_) flushes_.Take();
  std::optional<BuildJob> job = sealer_.BeginNext();
  flushes_.AnswerIfSettled(job ? &*job : nullptr, unmended);
  return job;
}

absl::StatusOr<std::optional<absl::Duration>> Builder::WorkOnce() {
  if (state_.stopping()) return std::nullopt;
  LookAtFilesForFlush();
  LC_ASSIGN_OR_RETURN(const bool mended, repair_.MendDamage(&failed_));
  const std::optional<BuildJob> job = BeginSeal();
  // After a flush may have been answered: a segment that is installed now is in no checkpoint yet.
  rewrites_.Finish();
  rewrites_.Start();
  if (!job) {
    absl::ReleasableMutexLock lock(&state_.mu);
    if (checks_.AnyDamaged()) return absl::ZeroDuration();  // A check has found it since.
    const bool flushing = !state_.checkpoint_due && state_.flush.pending();
    if (flushing && !state_.unchecked.empty()) {  // Damage that checks find is mended before a flush is answered.
      lock.Release();
      const absl::Duration next = checks_.CheckForFlush(kCheckStep);
      return next == absl::InfiniteDuration() ? absl::ZeroDuration() : next;
    }
    if (flushing && rewrites_.IsUnderWay()) return rewrites_.IsDone() ? absl::ZeroDuration() : kLookForDamageEvery;
    if (!state_.checkpoint_due) return mended ? std::nullopt : std::optional(kLookForDamageEvery);
  }
  LC_RETURN_IF_ERROR(job ? sealer_.Seal(*job) : WriteIndexCheckpoint(state_));
  if (job && job->plan.provisional && MayWaitForBurst()) return std::nullopt;
  return absl::ZeroDuration();
}

bool Builder::MayWaitForBurst() {
  absl::MutexLock lock(&state_.mu);
  // Where something fails, the builder comes back only after a while.
  if (state_.flush.pending() || state_.checkpoint_due || !state_.builds.mending_error.ok() || load_.FrozenCrowd()) {
    return false;
  }
  state_.Wake();  // Once the burst has passed, or as much waits again, the builder looks at what is left.
  return true;
}

void Builder::EndWork(absl::Status status) {
  phase_ = Phase::kIdle;
  absl::MutexLock lock(&state_.mu);
  state_.builds.sealing_error = status;
  if (!failed_.empty()) status.Update(failed_.begin()->second);
  retry_ = status.ok() ? absl::ZeroDuration() : NextRetry(retry_);
  if (!status.ok()) spdlog::error("index '{}': {}", state_.folder, MessageOf(status));
  idle_until_ = absl::Now() + (status.ok() ? kLookAtFilesEvery : retry_);
  status.Update(rewrites_.LastError());
  flushes_.Answer(status);
}

}  // namespace lightcone
