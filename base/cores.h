// How many processor cores there are for us. Threads: safe.
#pragma once

namespace lightcone {

// Processor cores that the calling thread may run on: its affinity mask (taskset, Docker's --cpuset-cpus), which
// std::thread::hardware_concurrency() does not know in glibc 2.36. At least 1. Two threads that spin at a barrier on
// one core cost a training fifty times its time. Safe from any thread.
int AvailableCores();

}  // namespace lightcone
