// Whether a thread does work that may wait: others gave it less priority than the process has.
// Threads: safe from any thread; says so of the calling one.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace lightcone {

// Linux: 0 is the calling thread, and the process's number that of its first thread.
inline bool ThreadStandsBack() {
  return ::getpriority(PRIO_PROCESS, 0) > ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
}

}  // namespace lightcone
