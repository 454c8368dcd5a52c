// The study of uncertainties (trainer/uncertainty) on an experiment's models, and its table. No torch here.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "research/experiment/cache.h"
#include "research/experiment/measure.h"
#include "research/experiment/plan.h"
#include "research/experiment/result.h"
#include "research/uncertainty/study.h"

namespace lightcone {

// Whether the test set can be studied: at least two images, and no protocol of its own (a study takes all images as
// queries and as items). INVALID_ARGUMENT. To be asked before anything is trained.
absl::Status CheckStudied(const Dataset& whole);

// StudyUncertainty of the test set with the oldest and the newest model of the recipe's row `row`
// (Recipe::uncertainty; its models must be there), kept in a file of `folder`, the experiments' own, so that a second
// run embeds nothing. DATA_LOSS names a damaged file; else errors of Encoder and StudyUncertainty. Threads: one at a
// time.
absl::StatusOr<UncertaintyStudy> StudyRow(const std::string& folder, const ExperimentPlan& plan, const Dataset& whole,
                                          const ModelCache& cache, Measurer& measurer, size_t row,
                                          const std::atomic<bool>* stop);

// {"cmc1", "map"}: kBackfillSteps + 1 values each.
nlohmann::ordered_json CurveJson(const BackfillCurve& curve);

// One line a predictor, the best mean AUROC first. REQUIRES: result.studies is not empty.
std::string PredictorsMarkdown(const ExperimentResult& result);
std::string PredictorsJson(const ExperimentResult& result);

}  // namespace lightcone
