// A loop over independent items on all cores, for decoding and resizing when a data set is opened. Threads: safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/cores.h"

namespace lightcone {

// Calls work(i) for each i in [0, n), on up to 16 threads; returns when all are done. `work` must be safe to call
// concurrently for different i, and must not throw.
template <typename Work>
void ParallelFor(int64_t n, const Work& work) {
  const int64_t cores = std::min(AvailableCores(), 16);
  std::atomic<int64_t> next{0};
  const auto run = [&] {
    for (int64_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> threads;
  for (int64_t t = 1; t < std::min(cores, n); ++t) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lightcone
