#include "store/error_gate.h"

#include <algorithm>
#include <cstdint>

#include "absl/time/clock.h"

namespace lightcone {
namespace {

constexpr absl::Duration kLook = absl::Microseconds(200);
constexpr absl::Duration kFlushBeginMax = absl::Seconds(2);
constexpr absl::Duration kFlushEndMax = absl::Seconds(5);
constexpr absl::Duration kPassageMax = absl::Seconds(5);
constexpr absl::Duration kTaking = absl::Milliseconds(100);  // time in which RocksDB has surely taken an error

thread_local bool runs_flushes = false;
thread_local bool passes = false;  // this thread is in Pass or Resume

template <typename Runs>
void Outwait(const Runs& runs, absl::Duration max) {
  const absl::Time limit = absl::Now() + max;
  while (runs() && absl::Now() < limit) absl::SleepFor(kLook);
}

}  // namespace

void ErrorGate::Enter() {
  const absl::Time limit = absl::Now() + kPassageMax;
  absl::MutexLock lock(&mutex_);
  for (absl::Time now = absl::Now(); now < open_from_ && now < limit; now = absl::Now()) {
    const absl::Time was = open_from_;
    const auto changed = [this, was]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_from_ != was; };
    mutex_.AwaitWithDeadline(absl::Condition(&changed), std::min(limit, was));
  }
  ++passing_;
  passes = true;
}

void ErrorGate::Leave() {
  passes = false;
  absl::MutexLock lock(&mutex_);
  --passing_;
}

rocksdb::Status ErrorGate::Resume() {
  // A flush that failed must have ended: it schedules another one, whose error would end the call while that runs.
  Outwait([this] { return IsPositive(rocksdb::DB::Properties::kNumRunningFlushes); }, kFlushEndMax);
  passes = true;
  const rocksdb::Status resumed = db_.load()->Resume();
  passes = false;
  return resumed;
}

void ErrorGate::AwaitFlushes() {
  const auto wait = [this] { return IsPositive(rocksdb::DB::Properties::kMemTableFlushPending); };
  if (runs_flushes) return;
  if (passes) return Outwait(wait, kFlushBeginMax);
  Close();
  Outwait(wait, kFlushBeginMax);
  absl::MutexLock lock(&mutex_);
  open_from_ = absl::Now() + kTaking;
}

void ErrorGate::Close() {
  const auto none_passes = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return passing_ == 0; };
  absl::MutexLock lock(&mutex_);
  open_from_ = absl::InfiniteFuture();
  mutex_.AwaitWithTimeout(absl::Condition(&none_passes), kFlushBeginMax);
}

void ErrorGate::MarkFlushThread() { runs_flushes = true; }

bool ErrorGate::IsPositive(const std::string& property) const {
  rocksdb::DB* const db = db_;
  uint64_t value = 0;
  return db != nullptr && db->GetAggregatedIntProperty(property, &value) && value > 0;
}

}  // namespace lightcone
