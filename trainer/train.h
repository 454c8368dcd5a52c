// The training of one encoder from data set and configuration to checkpoint, TorchScript encoder and manifest. No torch
// here.
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
  int64_t epoch = 0, epochs = 0;  // current epoch, from 1, and number of epochs
  int64_t step = 0, steps = 0;    // steps done and steps of the whole training
  // Mean losses since the last report: total, base, entail, contrast ... The total at an epoch's end is the epoch's
  // mean.
  std::vector<std::pair<std::string, double>> losses;
  double images_per_second = 0;  // rate since the start of this run
  double elapsed_seconds = 0, eta_seconds = 0;
  bool finished = false;
};
// Called from the training thread: at most ten times a second, after every epoch, and once at the end.
using TrainCallback = std::function<void(const TrainProgress&)>;

struct TrainResult {
  Manifest manifest;
  std::string folder;      // folder of checkpoint.bin, encoder.pt, manifest.json
  int64_t steps = 0;       // steps of the whole training
  int64_t resumed_at = 0;  // first step of this run
  double seconds = 0;      // seconds of this run
  double images_per_second = 0;
  double final_loss = 0;  // mean loss of the last epoch
};

// Trains on dataset.train. Resumes from FOLDER/checkpoint.bin of the same configuration and ends bit for bit as an
// uninterrupted run on the same machine with the same `threads`. A finished training returns at once. Errors:
// INVALID_ARGUMENT (config or data set: field, value, allowed), NOT_FOUND or DATA_LOSS (old model, checkpoint),
// FAILED_PRECONDITION (checkpoint of another configuration, with the option; old model of another dimension or
// curvature), CANCELLED once `*stop` is true, after a checkpoint, INTERNAL for a loss that is not finite.
// Threads: safe, but trainings of one process share the tensor library's threads. The process then keeps the memory
// that its tensors free (tensor_memory.h).
absl::StatusOr<TrainResult> Train(const Dataset& dataset, const TrainConfig& config, const std::string& folder,
                                  const TrainCallback& progress = {}, const std::atomic<bool>* stop = nullptr);

}  // namespace lightcone
