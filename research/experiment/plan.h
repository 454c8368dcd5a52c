// Which models an experiment needs for one seed, each once, however many rows share it. No torch here.
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "research/experiment/recipe.h"
#include "research/experiment/steps.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Part of every key: raise it when the same options no longer train the same model.
inline constexpr int kExperimentFormat = 1;

struct PlannedModel {
  std::string id;      // METHOD-sSEED-CHECKSUM of `key`: the name of its folder
  std::string key;     // JSON of all that its steps depend on: options, data, old and other models, kExperimentFormat
  std::string role;    // for people: "old (lorentz)", "hbct"; of the first that needs it
  TrainConfig config;  // without the folders of other models
  int step = 0;        // generation: which training set
  int old_model = -1, base_model = -1;  // of ExperimentPlan::models; -1: none
  int64_t images = 0;                   // of its training set
};

// The generations of a row, or of a space's independent models.
struct PlannedChain {
  std::vector<int> models;  // one a generation, oldest first; indices of ExperimentPlan::models
};

struct ExperimentPlan {
  uint64_t seed = 0;
  std::vector<GenerationData> steps;      // what each generation is trained on
  std::vector<PlannedModel> models;       // a model stands behind those that it needs
  std::vector<PlannedChain> independent;  // one a RecipeSpace
  std::vector<PlannedChain> rows;         // one a RecipeRow
};

// REQUIRES: `recipe` comes from ParseRecipe. Errors: those of RecipeConfig and StepDatasets; INVALID_ARGUMENT naming
// row, field and what is allowed when a row's models cannot be compared and no adapter stands between them.
absl::StatusOr<ExperimentPlan> MakePlan(const Recipe& recipe, const Dataset& whole, uint64_t seed);

}  // namespace lightcone
