#include "base/priority.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace lightcone {

namespace {

// On Linux, 0 means the calling thread, and the process's id is that of its first thread.
int NicenessOfProcess() { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid())); }

}  // namespace

void StandBack(int niceness) { ::setpriority(PRIO_PROCESS, 0, std::min(19, NicenessOfProcess() + niceness)); }

bool ThreadStandsBack() { return ::getpriority(PRIO_PROCESS, 0) > NicenessOfProcess(); }

}  // namespace lightcone
