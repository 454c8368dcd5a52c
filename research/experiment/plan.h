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
  std::string id;                       // METHOD-sSEED-CHECKSUM of `key`, the name of the model's folder
  std::string key;                      // JSON of everything that the training's steps depend on
  std::string role;                     // role for people, "old (lorentz)" or "hbct", in the first row that needs it
  TrainConfig config;                   // configuration without the folders of other models
  int step = 0;                         // generation, which gives the training set
  int old_model = -1, base_model = -1;  // positions in ExperimentPlan::models; -1: no model
  int64_t images = 0;                   // number of training images
};

// The generations of a row, or of a space's independent models.
struct PlannedChain {
  std::vector<int> models;  // positions in ExperimentPlan::models, one a generation, oldest first
};

struct ExperimentPlan {
  uint64_t seed = 0;
  std::vector<GenerationData> steps;      // training data of each generation
  std::vector<PlannedModel> models;       // models, each after those that it needs
  std::vector<PlannedChain> independent;  // chains by RecipeSpace
  std::vector<PlannedChain> rows;         // chains by RecipeRow
};

// REQUIRES: `recipe` comes from ParseRecipe. Errors: those of RecipeConfig and StepDatasets; INVALID_ARGUMENT naming
// row, field and what is allowed when a row's models cannot be compared and no adapter stands between them.
absl::StatusOr<ExperimentPlan> MakePlan(const Recipe& recipe, const Dataset& whole, uint64_t seed);

}  // namespace lightcone
