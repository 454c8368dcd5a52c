// Trains one encoder: data set + configuration in; checkpoint, TorchScript encoder and manifest out. No torch here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "models/manifest.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"

namespace lightcone {

struct TrainProgress {
  std::string name, method;
  int64_t epoch = 0, epochs = 0;  // epoch: 1 .. epochs
  int64_t step = 0, steps = 0;    // over the whole training
  // Means since the last report: total, base, entail, contrast ...; at an epoch's end the total is that of all of it.
  std::vector<std::pair<std::string, double>> losses;
  double images_per_second = 0;  // since the start (or resumption) of this run
  double elapsed_seconds = 0, eta_seconds = 0;
  bool finished = false;
};
// Called about ten times a second at most, behind every epoch, and once at the end; from the training thread.
using TrainCallback = std::function<void(const TrainProgress&)>;

struct TrainResult {
  Manifest manifest;
  std::string folder;      // holds checkpoint.bin, encoder.pt, manifest.json
  int64_t steps = 0;       // of the whole training
  int64_t resumed_at = 0;  // step at which this run took over; 0: from the start
  double seconds = 0;      // of this run
  double images_per_second = 0;
  double final_loss = 0;  // mean of the last epoch
};

// Trains on dataset.train. Takes up FOLDER/checkpoint.bin when it is there and belongs to the same configuration, and
// ends bit for bit as an uninterrupted run would (same machine, same `threads`); a finished training returns at once.
// Errors: INVALID_ARGUMENT (config or data set: field, value, allowed), NOT_FOUND/DATA_LOSS (old model, checkpoint),
// FAILED_PRECONDITION (checkpoint of another configuration, names the option; old model of another dimension or
// curvature), CANCELLED when `*stop` became true (a checkpoint is written first), INTERNAL when the loss is not finite.
// Threads: one training a process at a time gets all cores; several are safe, but share the tensor library's threads.
// From then on the process keeps the memory that its tensors give back (tensor_memory.h).
absl::StatusOr<TrainResult> Train(const Dataset& dataset, const TrainConfig& config, const std::string& folder,
                                  const TrainCallback& progress = {}, const std::atomic<bool>* stop = nullptr);

}  // namespace lightcone
