// How much a walk of a segment's graph, or a probe of its lists, finds, measured once, when the segment is sealed; and
// the breadth that a search needs for the recall that it asks for. Threads: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/rows/segment.h"

namespace lightcone {

inline constexpr int64_t kCalibrationK = 10;
// What searches of lists that name no breadth are given, as far as any breadth was seen to find it.
inline constexpr double kDefaultRecall = 0.95;
// The same where lists stand in for a graph that is yet to be built.
inline constexpr double kProvisionalRecall = 0.99;

// Which rows are asked for, counted in ascending order of internal id.
std::vector<int64_t> CalibrationRows(int64_t rows);

// Asks for the nearest kCalibrationK of about a hundred of the segment's own rows, each left out of its own answer (and
// of the graph that is walked), exactly and then by walks or probes of growing breadth, until nearly all is found.
// Empty for a flat segment and for one with too few rows to leave any out. CANCELLED when `stop` says so.
absl::StatusOr<std::vector<RecallAt>> MeasureRecall(const std::shared_ptr<const Segment>& segment,
                                                    const std::function<bool()>& stop);

// The least breadth measured at which a walk for k rows finds the share `target` of them, as far as the measurement can
// tell; beyond kCalibrationK rows it grows as k does. 0: none does, and only a scan is sure to. REQUIRES: k >= 1.
int BreadthFor(std::span<const RecallAt> measured, double target, int64_t k);

// The same of lists: they hold many rows each, and their number grows as the root of k.
int ProbesFor(std::span<const RecallAt> measured, double target, int64_t k);

// For a search of lists that asks for nothing: ProbesFor `target`, or where none was seen to find that (coarse codes),
// the widest measured; a scan would be more than was asked for. 0: nothing was measured.
int DefaultProbes(std::span<const RecallAt> measured, int64_t k, double target = kDefaultRecall);

}  // namespace lightcone
