#include "base/forward_clock.h"

#include <chrono>
#include <utility>

namespace lightcone {

ForwardClock::Source ForwardClock::Machine() {
  return {[] { return absl::Now(); },
          [] { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }};
}

ForwardClock::ForwardClock(Source source)
    : source_(std::move(source)), last_ms_(absl::ToUnixMillis(source_.wall())), last_steady_(source_.steady()) {}

int64_t ForwardClock::NowMs() const {
  absl::MutexLock lock(&mutex_);
  const absl::Duration steady = source_.steady();
  const int64_t passed_ms = absl::ToInt64Milliseconds(steady - last_steady_);
  const int64_t wall_ms = absl::ToUnixMillis(source_.wall());
  if (wall_ms >= last_ms_ + passed_ms) {
    last_ms_ = wall_ms;
    last_steady_ = steady;
  } else {
    last_ms_ += passed_ms;
    last_steady_ += absl::Milliseconds(passed_ms);  // The rest of a millisecond counts the next time.
  }
  return last_ms_;
}

void ForwardClock::NeverBefore(int64_t ms) {
  absl::MutexLock lock(&mutex_);
  last_ms_ = std::max(last_ms_, ms);
}

}  // namespace lightcone
