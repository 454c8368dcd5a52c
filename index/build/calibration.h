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
// all are found. The row itself is left out of its answer and of the graph. The same is asked from places beside the
// rows, a tenth of the way to another row, where queries lie: the lesser of both recalls counts. Empty for a flat
// segment, and for one with too few rows to leave any out. CANCELLED when `stop` says so.
absl::StatusOr<std::vector<RecallAt>> MeasureRecall(const std::shared_ptr<const Segment>& segment,
                                                    const std::function<bool()>& stop);

// Share of the nearest kCalibrationK of the same queries that are among the `breadth` best rows by their codes: what no
// walk of this `ef` can surpass. 1 without codes. Errors as above.
absl::StatusOr<double> MeasureCodes(const std::shared_ptr<const Segment>& segment, int breadth,
                                    const std::function<bool()>& stop);

}  // namespace lightcone
