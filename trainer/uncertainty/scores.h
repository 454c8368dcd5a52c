// One number for each item. No torch here. Threads: safe; uses all cores.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/parallel.h"

namespace lightcone {

using Scores = std::vector<double>;

// scores[i] = score(i), on all cores.
template <typename Score>
Scores ForEachItem(size_t n, const Score& score) {
  Scores scores(n);
  ParallelFor(static_cast<int64_t>(n),
              [&](int64_t i) { scores[static_cast<size_t>(i)] = score(static_cast<size_t>(i)); });
  return scores;
}

}  // namespace lightcone
