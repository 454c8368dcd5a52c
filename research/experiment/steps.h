// The generations of a recipe's scenario and what each is trained on. No torch here. Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "research/experiment/recipe.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// One generation on all images and nothing to be compatible with, beside the scenarios of
// research/experiment/scenario.h.
inline constexpr char kAloneScenario[] = "alone";

// Generations of the recipe's scenario: 2 for an old and a new model. INVALID_ARGUMENT for an unknown scenario (lists
// them), an unknown option or a value out of range, with the line.
absl::StatusOr<int> CountSteps(const Recipe& recipe);

struct GenerationData {
  Dataset dataset;  // training images in `train`; `test` is empty, since all are measured on the whole set
  bool architecture_changes = false;  // whether the architecture differs from the generation before
};

// Oldest first. INVALID_ARGUMENT when the set is too small for the scenario.
absl::StatusOr<std::vector<GenerationData>> StepDatasets(const Recipe& recipe, const Dataset& whole, uint64_t seed);

}  // namespace lightcone
