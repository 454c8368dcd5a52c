// The frozen classification head of an old model, for methods that train a new one through it. Only .cc files of
// trainer/ and tests include this.
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
  torch::Tensor weight;  // [old classes, d]
  torch::Tensor offset;  // [old classes]; undefined for losses of the angle
  HeadLossOptions loss;  // the one that it was trained with
  torch::Tensor row_of;  // int64 [classes of the new set]: the class's row in `weight`, or -1 for a class it never saw

  // Mean loss of `z` [n, d] over the samples of classes that the head knows; 0 when there is none.
  torch::Tensor Loss(const torch::Tensor& z, const torch::Tensor& labels) const;
};

// A head as its training left it in FOLDER/checkpoint.bin.
struct StoredHead {
  torch::Tensor weight;  // [classes, d]
  torch::Tensor offset;  // [classes]; undefined for losses of the angle
  TrainConfig config;    // of the training
  std::string classes;   // section of names; empty for a checkpoint without them
};

// NOT_FOUND: no such file. DATA_LOSS for a damaged one. Both name it.
absl::StatusOr<StoredHead> ReadStoredHead(const std::string& folder);

// Reads the head out of FOLDER/checkpoint.bin and finds `class_names` (of the new set) in it by name; by position in a
// checkpoint without names. FAILED_PRECONDITION, which says what else can be done: no such file, a head of metric
// lorentz or of another dimension than the model's embeddings, or no class in common. DATA_LOSS for a damaged file.
absl::StatusOr<OldHead> LoadOldHead(const std::string& folder, const Manifest& manifest,
                                    const std::vector<std::string>& class_names);

}  // namespace lightcone
