// `lightcone experiment`: trains what a recipe needs and is not there yet, measures it, writes tables and plots
// (docs/reference/recipes.md). A killed experiment that is started again ends with the same bytes. No torch here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "research/experiment/result.h"
#include "trainer/train.h"

namespace lightcone {

struct ExperimentOptions {
  std::string recipe;                         // file or name for OpenRecipe
  std::string out = "lightcone-experiments";  // folder of models, figures, adapters and results
  std::string data;                           // name for OpenDataset; empty: the recipe's
  std::vector<uint64_t> seeds;                // seeds; empty: the recipe's
  bool resume = false;                        // whether to continue the experiment in `out`, with its data and seeds
};

struct ExperimentHooks {
  std::function<void(const std::string&)> say = {};  // receiver of a line about the next step
  TrainCallback progress = {};                       // progress of each training
  const std::atomic<bool>* stop = nullptr;           // request to end with CANCELLED after a checkpoint
};

struct ExperimentOutcome {
  ExperimentResult result;
  std::string folder;               // folder of the result files
  int64_t trained = 0, cached = 0;  // numbers of models in this run
};

// Errors: those of OpenRecipe, OpenDataset, CheckStudied, CheckQueries, MakePlan, Train, Measurer and StudyRow, with
// the model or row before them; INVALID_ARGUMENT when the recipe leaves the data set open and none is given;
// FAILED_PRECONDITION when another process works in `out`, and with `resume` when the recipe, data or seeds are others
// (says which); NOT_FOUND with `resume` when nothing stands there; DATA_LOSS naming a damaged file. Threads: one
// experiment a process at a time.
absl::StatusOr<ExperimentOutcome> RunExperiment(const ExperimentOptions& options, const ExperimentHooks& hooks = {});

struct ForecastModel {
  std::string id, role, method;
  uint64_t seed = 0;
  int64_t images = 0, epochs = 0;
  double gigamacs_per_image = 0;  // 1e9 multiply-accumulates of a forward pass; 0: unknown (torchscript)
  bool cached = false;
  std::optional<double> seconds;  // seconds of the training; 0 when cached, empty when unknown
};

struct ExperimentForecast {
  std::vector<ForecastModel> models;
  std::string measured_on;       // id of the model whose speed is the base; empty without a training
  double images_per_second = 0;  // speed of that model
  double seconds = 0;            // known seconds of all trainings, without adapters and measurements
};

// What RunExperiment would train and how long that takes. Trains and writes nothing in `options.out`: the newest
// independent model's first steps run for about five seconds in a temporary folder, unless `images_per_second` (of that
// model) is given; other models cost in proportion to their multiply-accumulates. Errors as above.
absl::StatusOr<ExperimentForecast> ForecastExperiment(const ExperimentOptions& options,
                                                      std::optional<double> images_per_second,
                                                      const ExperimentHooks& hooks = {});

}  // namespace lightcone
