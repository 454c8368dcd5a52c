// Processor time used so far. Threads: safe.
#pragma once

#include <time.h>

#include "absl/time/time.h"

namespace lightcone {

inline absl::Duration ProcessorTimeOf(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return absl::DurationFromTimespec(now);
}
inline absl::Duration ProcessorTimeOfThread() { return ProcessorTimeOf(CLOCK_THREAD_CPUTIME_ID); }
inline absl::Duration ProcessorTimeOfProcess() { return ProcessorTimeOf(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace lightcone
