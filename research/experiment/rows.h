// From measured pairs of models to the rows of a table. No torch here. Threads: one at a time.
#pragma once

#include <map>

#include "absl/status/status.h"
#include "research/experiment/cache.h"
#include "research/experiment/measure.h"
#include "research/experiment/plan.h"
#include "research/experiment/result.h"

namespace lightcone {

// By the protocol of the test set where it has one.
TestQueries CountQueries(const Dataset& whole);

// INVALID_ARGUMENT when no query counts, so that every figure would be 0: names the recipe's `validation` where that is
// the cause. To be asked before anything is trained.
absl::Status CheckQueries(const Recipe& recipe, const Dataset& whole);

// The rows of a recipe without values: of each space its old models and those trained alone, then the recipe's.
std::vector<ExperimentRow> EmptyRows(const Recipe& recipe, int steps);

// Measures every row for the plan's seed and appends the values to `result->rows` (of EmptyRows); the first seed's
// material for plots goes to `result->plots`. `costs`: of every model of the plan. Errors carry the row.
absl::Status MeasureRows(const Recipe& recipe, const ExperimentPlan& plan, const Dataset& whole,
                         const std::vector<ModelCost>& costs, Measurer& measurer, const std::atomic<bool>* stop,
                         ExperimentResult* result);

}  // namespace lightcone
