// The state of a training and its checkpoint sections "config" and "progress". No torch here. Threads: values and pure
// functions.
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
  int64_t step = 0;            // number of steps done
  double epoch_loss = 0;       // sum of the total loss over the steps of the current epoch
  double last_epoch_loss = 0;  // mean of the total loss over the last epoch
  double seconds = 0;          // seconds of training in all runs
};

// The identity of a checkpoint: the options that its steps depend on, the data and the old model.
struct RunIdentity {
  TrainConfig config;
  uint32_t data_crc32c = 0;          // checksum of the training pixels and labels
  uint32_t reading_crc32c = 0;       // checksum of normalisation, augmentation and class names
  uint32_t old_model_crc32c = 0;     // checksum of the old encoder's file; 0 without one
  uint32_t other_models_crc32c = 0;  // result of TrainingMethod::OtherModelsCrc32c
};

// Whether a training's steps depend on the option's value. Excluded are options that change no step (threads changes
// rounding alone), folders of other models, whose checksums count instead, and options that the method does not read.
bool StepsDependOn(const std::string& option, const MethodInfo& method);

// CRC-32C of the training pixels and labels.
uint32_t DataChecksum(const Dataset& dataset);

RunIdentity IdentityOf(const Dataset& dataset, const TrainConfig& config, uint32_t old_model_crc32c,
                       uint32_t other_models_crc32c = 0);

void SaveProgress(const RunIdentity& identity, const RunProgress& progress, Checkpoint& checkpoint);

// FAILED_PRECONDITION for a checkpoint of another identity, with the option and both values; DATA_LOSS for unreadable
// sections.
absl::StatusOr<RunProgress> LoadProgress(const RunIdentity& identity, const Checkpoint& checkpoint);

// Number of threads of the checkpoint's steps; 0 where it is missing or unreadable.
int SavedThreads(const Checkpoint& checkpoint);

}  // namespace lightcone
