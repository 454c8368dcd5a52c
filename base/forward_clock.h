// A wall clock that never goes back and never stands still: where somebody turns the machine's clock back, it goes on
// with the steady clock from the latest time that it has told.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lightcone {

class ForwardClock {
 public:
  struct Source {
    std::function<absl::Time()> wall;        // time that may jump
    std::function<absl::Duration()> steady;  // time since some moment of this process, which does not jump
  };
  static Source Machine();

  explicit ForwardClock(Source source);

  int64_t NowMs() const ABSL_LOCKS_EXCLUDED(mutex_);  // milliseconds since 1970
  // From now on it tells no earlier time than this one.
  void NeverBefore(int64_t ms) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Source source_;
  mutable absl::Mutex mutex_;
  mutable int64_t last_ms_ ABSL_GUARDED_BY(mutex_);
  mutable absl::Duration last_steady_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lightcone
