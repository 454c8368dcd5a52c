// What was computed so far. Threads: safe from any thread.
#pragma once

#include <time.h>

#include "absl/time/time.h"

namespace lightcone {

inline absl::Duration ProcessorTimeBy(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return absl::DurationFromTimespec(now);
}
inline absl::Duration ProcessorTimeOfThread() { return ProcessorTimeBy(CLOCK_THREAD_CPUTIME_ID); }    // the calling one
inline absl::Duration ProcessorTimeOfProcess() { return ProcessorTimeBy(CLOCK_PROCESS_CPUTIME_ID); }  // all its threads

}  // namespace lightcone
