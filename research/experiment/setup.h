// What a run and a forecast of an experiment begin with. No torch here. Threads: one at a time.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "research/experiment/experiment.h"
#include "research/experiment/recipe.h"

namespace lightcone {

struct ExperimentSetup {
  Recipe recipe;
  std::string data, out;
  std::vector<uint64_t> seeds;
  std::vector<std::string> notes;  // lines for the log about versions that differ from the resumed experiment's

  std::string folder() const { return out + "/" + recipe.name; }
  std::string models() const { return out + "/models"; }
};

// Recipe, data and seeds as the options and, with `resume`, experiment.json say. Errors as RunExperiment.
absl::StatusOr<ExperimentSetup> SetUp(const ExperimentOptions& options);

// The data set of one seed, with the recipe's validation images in place of the test images where it asks for that.
// Errors of OpenDataset and HoldOut, with "data" before them.
absl::StatusOr<Dataset> OpenWhole(const ExperimentSetup& setup, uint64_t seed);

// The beginning of experiment.json: versions, recipe, data, seeds.
nlohmann::ordered_json SetupJson(const ExperimentSetup& setup);

// Holds OUT for this process; ends with the process, however that ends. FAILED_PRECONDITION when another holds it.
class ExperimentLock {
 public:
  static absl::StatusOr<std::unique_ptr<ExperimentLock>> Take(const std::string& out);
  ~ExperimentLock();
  ExperimentLock(const ExperimentLock&) = delete;
  ExperimentLock& operator=(const ExperimentLock&) = delete;

 private:
  explicit ExperimentLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace lightcone
