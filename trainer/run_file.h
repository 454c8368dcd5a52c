// Where a training stands, and the checkpoint sections "config" and "progress" that say so. No torch here.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/checkpoint.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"
#include "trainer/methods/method.h"

namespace lightcone {

struct RunProgress {
  int64_t step = 0;            // steps done
  double epoch_loss = 0;       // sum of the total loss over the steps of the current epoch
  double last_epoch_loss = 0;  // mean over the epoch before
  double seconds = 0;          // of training, over all runs
};

// What a checkpoint belongs to: the options that its steps depend on, the data and the old model.
struct RunIdentity {
  TrainConfig config;
  uint32_t data_crc32c = 0;          // of the training pixels and labels
  uint32_t reading_crc32c = 0;       // of how they are read: normalisation, changes of the images, names of the classes
  uint32_t old_model_crc32c = 0;     // of the old encoder's file; 0 without one
  uint32_t other_models_crc32c = 0;  // TrainingMethod::OtherModelsCrc32c
};

// Whether a training's steps depend on what the option itself says. Not those that change no step (threads changes
// rounding only), those that say where other models lie (whose checksums count instead), and those that the method does
// not read.
bool StepsDependOn(const std::string& option, const MethodInfo& method);

// CRC-32C of the training pixels and labels.
uint32_t DataChecksum(const Dataset& dataset);

RunIdentity IdentityOf(const Dataset& dataset, const TrainConfig& config, uint32_t old_model_crc32c,
                       uint32_t other_models_crc32c = 0);

void SaveProgress(const RunIdentity& identity, const RunProgress& progress, Checkpoint& checkpoint);

// FAILED_PRECONDITION when the checkpoint belongs to another identity (names the option and both values); DATA_LOSS
// when its sections cannot be read.
absl::StatusOr<RunProgress> LoadProgress(const RunIdentity& identity, const Checkpoint& checkpoint);

// The threads that the checkpoint's steps were computed with; 0 where it does not say or cannot be read.
int SavedThreads(const Checkpoint& checkpoint);

}  // namespace lightcone
