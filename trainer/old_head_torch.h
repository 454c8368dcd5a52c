// The frozen classification head of an old model, for methods that train a new model through the head. Only .cc files
// of trainer/ and tests include this.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/manifest.h"
#include "trainer/config.h"
#include "trainer/losses/margin_torch.h"

namespace lightcone {

// Threads: const methods are safe concurrently.
struct OldHead {
  torch::Tensor weight;  // weight, [old classes, d]
  torch::Tensor offset;  // bias, [old classes]; undefined for losses of the angle
  HeadLossOptions loss;  // loss of the head's training
  torch::Tensor row_of;  // row in `weight` of each new class, int64; -1 for an unknown class

  // Mean loss of `z` [n, d] over the samples of known classes; 0 without such samples.
  torch::Tensor Loss(const torch::Tensor& z, const torch::Tensor& labels) const;
};

// A head in the FOLDER/checkpoint.bin of its training.
struct StoredHead {
  torch::Tensor weight;  // weight, [classes, d]
  torch::Tensor offset;  // bias, [classes]; undefined for losses of the angle
  TrainConfig config;    // configuration of the training
  std::string classes;   // section of class names; empty for a checkpoint without one
};

// NOT_FOUND for a missing file, DATA_LOSS for a damaged one. Both name the file.
absl::StatusOr<StoredHead> ReadStoredHead(const std::string& folder);

// Reads the head of FOLDER/checkpoint.bin and finds the `class_names` of the new set in it: by name, or by position in
// a checkpoint without names. FAILED_PRECONDITION names an alternative: a missing file, a head of metric lorentz or of
// another dimension than the model's embeddings, or no common class. DATA_LOSS for a damaged file.
absl::StatusOr<OldHead> LoadOldHead(const std::string& folder, const Manifest& manifest,
                                    const std::vector<std::string>& class_names);

}  // namespace lightcone
