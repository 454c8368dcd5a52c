// How far the threads of a rollout have come: what the one that kills the server, and those that go with the writes,
// wait for. Threads: safe from any thread.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone {

class Meter {
 public:
  void Begin() { Set(true); }  // a server serves
  void End() { Set(false); }   // it was killed: nobody waits any more
  void Acknowledged() {
    absl::MutexLock lock(&mu_);
    ++acknowledged_;
  }
  void OperatorSends() {
    absl::MutexLock lock(&mu_);
    ++sent_;
  }
  int64_t acknowledged() const {
    absl::MutexLock lock(&mu_);
    return acknowledged_;
  }
  int64_t sent() const {
    absl::MutexLock lock(&mu_);
    return sent_;
  }

  // False when that takes so long that something must hang.
  bool AwaitAcknowledged(int64_t count) const {
    const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return acknowledged_ >= count; };
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&there), kHangs);
  }
  bool AwaitSent(int64_t count) const {
    const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return sent_ >= count; };
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&there), kHangs);
  }
  // Until `count` more writes are acknowledged. False: the server was killed, or hangs.
  bool GoOn(int64_t count) const {
    absl::MutexLock lock(&mu_);
    const int64_t target = acknowledged_ + count;
    const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !serves_ || acknowledged_ >= target; };
    return mu_.AwaitWithTimeout(absl::Condition(&there), kHangs) && serves_;
  }

 private:
  static constexpr absl::Duration kHangs = absl::Minutes(5);

  void Set(bool serves) {
    absl::MutexLock lock(&mu_);
    serves_ = serves;
  }

  mutable absl::Mutex mu_;
  bool serves_ ABSL_GUARDED_BY(mu_) = false;
  int64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0, sent_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace lightcone
