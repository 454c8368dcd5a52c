// Whether an endpoint is called: after consecutive failures it is left alone for a while, then tried by one request.
// Threads: every method is safe from any thread.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone::server {

class EndpointBreaker {
 public:
  enum class Outcome { kWorks, kFailed, kUnknown };
  // A request that was admitted: one of many, or the one that tries the endpoint after a rest.
  enum class Entry { kUsual, kTrial };

  // REQUIRES: failures_max >= 1.
  EndpointBreaker(int failures_max, absl::Duration rest);

  // UNAVAILABLE, with the time after which it may be otherwise. Each entry needs its Note.
  absl::StatusOr<Entry> Admit(absl::Time now);
  // Failures of usual requests that were under way when the rest began do not lengthen it.
  void Note(Entry entry, Outcome outcome, absl::Time now);

 private:
  const int failures_max_;
  const absl::Duration rest_;
  absl::Mutex mu_;
  int failures_ ABSL_GUARDED_BY(mu_) = 0;  // consecutive failures
  absl::Time closed_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool trying_ ABSL_GUARDED_BY(mu_) = false;  // whether a trial is under way
};

}  // namespace lightcone::server
