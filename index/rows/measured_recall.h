// Breadth of a search for a wanted recall, from what was measured when the segment was sealed (build/calibration.h).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/rows/segment.h"

namespace lightcone {

inline constexpr int64_t kCalibrationK = 10;  // results of each measured query
// Recall of a search of lists that names no breadth, as far as any breadth reached it.
inline constexpr double kDefaultRecall = 0.95;
// The same where lists stand in for a graph that is not built yet.
inline constexpr double kProvisionalRecall = 0.99;

// Rows that serve as queries of the measurement: places in ascending order of internal id.
std::vector<int64_t> CalibrationRows(int64_t rows);

// The least measured `ef` at which a beam search for k rows reaches recall `target`. Beyond kCalibrationK rows it grows
// as k does. 0: no measured `ef` reaches it, so only a scan does. REQUIRES: k >= 1.
int BreadthFor(std::span<const RecallAt> measured, double target, int64_t k);

// The same for `nprobe`, which grows as the square root of k: a list holds many rows.
int ProbesFor(std::span<const RecallAt> measured, double target, int64_t k);

// `nprobe` of a search that names none: ProbesFor `target`, or the widest measured where none reaches it (coarse
// codes). 0: nothing was measured.
int DefaultProbes(std::span<const RecallAt> measured, int64_t k, double target = kDefaultRecall);

}  // namespace lightcone
