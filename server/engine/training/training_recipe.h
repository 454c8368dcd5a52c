// What an operator's recipe of a training says, and the command line that runs it (`lightcone train`).
// Threads: pure functions and plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/lock_in.h"
#include "geometry/metric.h"

namespace lightcone::server {

struct TrainingRecipe {
  std::string method;  // a method of `lightcone train --list`
  std::string recipe = "quick";
  std::string name;  // name of the model; empty: the server makes one up
  std::string data;  // a data set on this machine; empty: stored inputs
  uint64_t seed = 1;
  int classes = 0;                                           // number of the first classes; 0: all
  double fraction = 1;                                       // share of each class, above 0 .. 1
  std::vector<std::pair<std::string, std::string>> options;  // options, as with --set
};

// A JSON object of these names; "options" is an object of texts, numbers and booleans. INVALID_ARGUMENT names the field
// that is unknown, missing, of another type or out of range.
absl::StatusOr<TrainingRecipe> ParseTrainingRecipe(const std::string& json);

// INVALID_ARGUMENT for options that lead out of the collection's space: its models could never be added.
absl::Status CheckTrainingSpace(const TrainingRecipe& recipe, Metric metric, double curvature);

// Where a training reads and writes.
struct TrainingPlaces {
  std::string data;      // folder of stored inputs, where the recipe names no data
  std::string old;       // folder of the model to be compatible with; empty: none
  std::string model;     // folder that it makes
  std::string progress;  // file
  std::string home;      // folder that all of these lie in
};

// How the program locks itself in (encoder.sandbox): by what it reads beside its home.
struct TrainingLock {
  LockMode mode = LockMode::kAuto;
  std::vector<std::string> read;
};

// The words of the command line, the program first, for a model of this space. `threads`: unless the recipe says how
// many.
std::vector<std::string> TrainingWords(const std::string& program, const TrainingRecipe& recipe,
                                       const TrainingPlaces& places, const TrainingLock& lock, Metric metric,
                                       double curvature, int threads);

}  // namespace lightcone::server
