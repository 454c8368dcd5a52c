#include "base/priority.h"

#include <sys/resource.h>
#include <unistd.h>

namespace lightcone {

// On Linux, the number 0 is the calling thread, and the process's number that of its first thread.
void StandBack(int niceness) { ::setpriority(PRIO_PROCESS, 0, niceness); }

bool ThreadStandsBack() {
  return ::getpriority(PRIO_PROCESS, 0) > ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
}

}  // namespace lightcone
