// The scenarios in which an older and a newer model differ (HBCT 5, MixBCT 4, AdvBCT 4): which training images each
// model of a chain sees, and where the architecture changes. docs/reference/evaluation.md, Scenarios. Threads: pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone {

struct ScenarioOptions {
  double old_share = 0;  // first model's share of images or classes, in (0, 1); 0: the default
  uint64_t seed = 1;     // seed of the choice of images (ext-data, open-data)
  // Which classes come first: "ascending" class ids, or "lexicographic": of their decimal digits, as BT2's folders are
  // ('0', '1', '10', ...: the first half of 100 classes is 0-5 and 10-53).
  std::string class_order = "ascending";
  std::vector<double> chain_shares = {0.2, 0.4, 0.6, 0.8, 1.0};  // rising shares of the classes, up to 1 (sequential)
  int64_t chain_change = 2;  // first model with the new architecture (sequential); 0: none

  // INVALID_ARGUMENT names the field, its value and the allowed range.
  absl::Status Validate() const;
};

// What one model of a chain is trained on.
struct ScenarioStep {
  std::vector<int64_t> rows;          // rows of the training set, ascending
  std::vector<int32_t> classes;       // classes of these rows, in the order of their numbers
  bool architecture_changes = false;  // whether the architecture differs from the step before
};

struct Scenario {
  std::string name, help;
  std::vector<ScenarioStep> steps;  // steps, oldest first: two, or as many as chain_shares
};

struct ScenarioInfo {
  std::string name, help;
  double old_share = 0;              // default share; 0: the scenario takes none
  std::vector<std::string> options;  // options of ScenarioOptions that the scenario reads, without the seed
};
// ext-data, ext-class, open-data, open-class, new-arch, both, sequential.
const std::vector<ScenarioInfo>& ScenarioKinds();

// The steps of a scenario on the training images of `dataset`. Classes count that have training images. Where a step
// extends the one before, its classes begin with those of that step, so that class ids stay what they were.
// INVALID_ARGUMENT: an unknown name (lists the known ones), an option out of range or that the scenario does not take,
// a step with fewer than two classes or without images of its own, a class too small to be divided. Each names it.
absl::StatusOr<Scenario> MakeScenario(std::string_view name, const Dataset& dataset, const ScenarioOptions& options);

// The data set of one step: its training images, the test images of its classes, and the class ids 0 .. n-1 in the
// order of step.classes. Normalisation and augmentation stay those of `dataset`, so that all models of a chain see an
// image alike. A test protocol does not survive a division by classes: evaluations use the whole data set.
// REQUIRES: a step of a scenario of this data set.
Dataset StepDataset(const Dataset& dataset, const ScenarioStep& step);

// Replaces the test images by a share (0, 1) of each class's training images, drawn from `seed`. Choices are made on
// these, so that the test images stay unseen. A class of three images or more gives at least two, so that each finds
// another one. The test set's protocol is dropped. INVALID_ARGUMENT when a class has one image.
absl::Status HoldOut(double share, uint64_t seed, Dataset* dataset);

}  // namespace lightcone
