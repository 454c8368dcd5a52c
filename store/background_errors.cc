#include "store/background_errors.h"

#include <algorithm>
#include <string_view>

#include "absl/time/clock.h"
#include "spdlog/spdlog.h"
#include "store/disk_status.h"

namespace lightcone {
namespace {

constexpr absl::Duration kPauseMin = absl::Milliseconds(100);
constexpr absl::Duration kPauseMax = absl::Seconds(4);     // writes that are refused must continue within seconds
constexpr absl::Duration kRefusalMin = absl::Seconds(15);  // time that a write waits for background work to go on
constexpr absl::Duration kCalm = absl::Minutes(1);         // time without an error after which pauses begin anew

std::string_view NameOf(rocksdb::BackgroundErrorReason reason) {
  using Reason = rocksdb::BackgroundErrorReason;
  if (reason == Reason::kCompaction) return "compaction";
  if (reason == Reason::kFlush || reason == Reason::kFlushNoWAL) return "flush";
  return "manifest";
}

// A flush also syncs logs that ended before it. The text of such an error names the file.
bool TouchedLog(rocksdb::BackgroundErrorReason reason, const rocksdb::Status& error) {
  using Reason = rocksdb::BackgroundErrorReason;
  return reason == Reason::kWriteCallback || reason == Reason::kMemTable ||
         error.ToString().find(".log") != std::string::npos;
}

}  // namespace

void BackgroundErrors::OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) {
  using Severity = rocksdb::Status::Severity;
  if (TouchedLog(reason, *error)) {
    // A log that finds no room keeps what it has, or was not opened at all: DB::Resume begins a new one.
    const bool repeated = RepeatsError(*error) && told_.log_full();
    const bool passes = repeated || IsFullDisk(*error);
    if (passes) *error = rocksdb::Status(*error, Severity::kHardError);
    if (!repeated) told_.of_log(*error);  // From here on nobody syncs the log.
    if (passes) told_.stops();
    return;
  }
  errors_.fetch_add(1);
  const bool compaction = reason == rocksdb::BackgroundErrorReason::kCompaction;
  // A compaction that failed leaves its inputs as they were, and writes may go on.
  *error = rocksdb::Status(*error, compaction ? Severity::kSoftError : Severity::kHardError);
  if (!compaction) told_.stops();
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = absl::Now();
    pause_ = now - last_error_ > kCalm ? kPauseMin : std::min(2 * pause_, kPauseMax);
    last_error_ = now;
    due_ = now + pause_;
    waiting_ = true;
    full_disk_ = !compaction && IsFullDisk(*error);
  }
  spdlog::error("store '{}': {} failed and is tried again: {}", folder_, NameOf(reason), error->ToString());
  told_.resumable();
}

absl::Duration BackgroundErrors::UntilResume(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  return waiting_ ? std::max(absl::ZeroDuration(), due_ - now) : absl::InfiniteDuration();
}

bool BackgroundErrors::full_disk() const {
  absl::MutexLock lock(&mutex_);
  return waiting_ && full_disk_;
}

void BackgroundErrors::Meet() {
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_) return;
    waiting_ = true;
    due_ = absl::Now() + kPauseMin;
  }
  told_.resumable();
}

rocksdb::Status BackgroundErrors::Outlast(const std::function<rocksdb::Status()>& write) {
  const absl::Time limit = absl::Now() + kRefusalMin;
  for (;;) {
    rocksdb::Status written = write();
    const absl::Duration left = limit - absl::Now();
    if (!written.IsIncomplete() || left <= absl::ZeroDuration()) return written;
    Meet();
    const auto resumed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !waiting_; };
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&resumed), left);
  }
}

void BackgroundErrors::Resumed(const rocksdb::Status& outcome) {
  absl::MutexLock lock(&mutex_);
  if (outcome.ok()) {
    waiting_ = false;
    resumes_.fetch_add(1);
    spdlog::info("store '{}': background work goes on", folder_);
    return;
  }
  pause_ = std::min(2 * std::max(pause_, kPauseMin), kPauseMax);
  due_ = absl::Now() + pause_;
}

}  // namespace lightcone
