// Measures the recall of a segment's graph or lists, once, when the segment is sealed. rows/measured_recall.h reads it.
// Threads: pure functions.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "index/rows/measured_recall.h"

namespace lightcone {

// Searches for the nearest kCalibrationK of each of CalibrationRows, exactly and then with growing breadth until nearly
// all are found. The row itself is left out of its answer and of the graph. Empty for a flat segment, and for one with
// too few rows to leave any out. CANCELLED when `stop` says so.
absl::StatusOr<std::vector<RecallAt>> MeasureRecall(const std::shared_ptr<const Segment>& segment,
                                                    const std::function<bool()>& stop);

}  // namespace lightcone
