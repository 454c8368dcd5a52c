#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace lightcone {

int AvailableCores() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) return std::max(1, CPU_COUNT(&mask));
  // The machine has more cores than a cpu_set_t holds.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace lightcone
