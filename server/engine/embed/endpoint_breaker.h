// Whether an endpoint is called: after consecutive failures it is left alone for a while, then tried by one request.
// Threads: every method is safe from any thread.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone::server {

class EndpointBreaker {
 public:
  enum class Outcome { kWorks, kFailed, kUnknown };

  // REQUIRES: failures_max >= 1.
  EndpointBreaker(int failures_max, absl::Duration rest);

  // UNAVAILABLE, with the time after which it may be otherwise. Each OK needs its Note.
  absl::Status Admit(absl::Time now);
  void Note(Outcome outcome, absl::Time now);

 private:
  const int failures_max_;
  const absl::Duration rest_;
  absl::Mutex mu_;
  int failures_ ABSL_GUARDED_BY(mu_) = 0;  // consecutive failures
  absl::Time closed_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool trying_ ABSL_GUARDED_BY(mu_) = false;  // the one request after a rest
};

}  // namespace lightcone::server
