// The number of processor cores for this process. Threads: safe.
#pragma once

namespace lightcone {

// Number of processor cores that the calling thread may run on, at least 1: its affinity mask (taskset, Docker's
// --cpuset-cpus), which std::thread::hardware_concurrency() does not know in glibc 2.36. Two threads that spin at a
// barrier on one core cost a training fifty times its time.
int AvailableCores();

}  // namespace lightcone
