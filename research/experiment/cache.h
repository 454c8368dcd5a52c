// Trained models in folders named by what they were trained with (docs/reference/recipes.md). No torch here.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "research/experiment/plan.h"
#include "trainer/train.h"

namespace lightcone {

// The error of a file that is only a cached result, with the way out: remove the file.
absl::Status Removable(const absl::Status& status);

struct ModelCost {
  double seconds = 0, images_per_second = 0;  // cost of the training over all its runs
};

// Threads: one at a time; one process a folder (ExperimentLock).
class ModelCache {
 public:
  explicit ModelCache(std::string folder) : folder_(std::move(folder)) {}

  std::string FolderOf(const PlannedModel& model) const { return folder_ + "/" + model.id; }

  // Whether the model is there, complete and undamaged. DATA_LOSS naming the file that is damaged or missing.
  absl::StatusOr<bool> Has(const PlannedModel& model) const;

  // Trains what Has() does not find, or goes on with it; the models that it needs must be there. Errors of Train, and
  // as Has().
  absl::StatusOr<ModelCost> Get(const ExperimentPlan& plan, const PlannedModel& model, const TrainCallback& progress,
                                const std::atomic<bool>* stop);

 private:
  absl::Status CheckKey(const PlannedModel& model, bool write) const;
  absl::Status Seal(const ExperimentPlan& plan, const PlannedModel& model, const TrainResult& result) const;
  // An old model that was trained anew (another machine, other threads) has another space than the one in the keys.
  absl::Status CheckOtherModels(const ExperimentPlan& plan, const PlannedModel& model) const;

  const std::string folder_;
};

}  // namespace lightcone
