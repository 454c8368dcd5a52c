// Breadth of a search for a wanted recall, from what was measured when the segment was sealed (build/calibration.h).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/api/search.h"
#include "index/rows/segment.h"

namespace lightcone {

inline constexpr int64_t kCalibrationK = 10;  // results of each measured query
// Measured recall at which a segment is trusted to keep kDefaultRecall: queries may be harder than those measured.
inline constexpr double kTrustedRecall = 0.97;
// The same where lists stand in for a graph that is not built yet.
inline constexpr double kProvisionalRecall = 0.99;

// Rows that serve as queries of the measurement: places in ascending order of internal id.
std::vector<int64_t> CalibrationRows(int64_t rows);

// The least measured `ef` at which a beam search for k rows reaches recall `target`. Beyond kCalibrationK rows it grows
// as k does. 0: no measured `ef` reaches it, so only a scan does. REQUIRES: k >= 1.
int BreadthFor(std::span<const RecallAt> measured, double target, int64_t k);

// The same for `nprobe`, which grows as the square root of k: a list holds many rows.
int ProbesFor(std::span<const RecallAt> measured, double target, int64_t k);

// `ef` of a search that names none: `ef_default`, or more where kTrustedRecall, or at least kDefaultRecall, of ten rows
// needs more, and one more for each row beyond ten. 0: no measured `ef` reaches kDefaultRecall, so the segment has to
// be scanned. `ef_default` where nothing was measured.
int DefaultBreadth(std::span<const RecallAt> measured, int ef_default, int64_t k);

// `nprobe` of a search that names none: the least measured to reach kTrustedRecall, or at least kDefaultRecall. 0: none
// does, so the segment has to be scanned.
int DefaultProbes(std::span<const RecallAt> measured, int64_t k);

// The `ef` at which walks have to find enough, or a graph is mended: the settings', but no narrower one than the
// server's default. A narrow default is a choice of speed, and no fault of the graph.
int FairBreadth(int ef_default);

// Whether walks find kTrustedRecall of the nearest rows at about the cost that they should have: within twice the fair
// breadth. Where nothing was measured, rows are so few that they are scanned faster than walked.
bool WalksFindEnough(std::span<const RecallAt> measured, int ef_default);

// Whether some number of lists finds kTrustedRecall of the nearest rows, or nothing was measured.
bool ListsFindEnough(std::span<const RecallAt> measured);

// Recall at a breadth: that of the broadest measurement which is no broader; 0 without one.
double RecallAtBreadth(std::span<const RecallAt> measured, int breadth);

// `nprobe` in a provisional segment: ProbesFor kProvisionalRecall, or the widest measured where none reaches it. 0:
// nothing was measured.
int ProvisionalProbes(std::span<const RecallAt> measured, int64_t k);

}  // namespace lightcone
