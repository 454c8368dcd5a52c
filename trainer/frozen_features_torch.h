// Unit embeddings of the training images by a frozen model, for MixBCT and BT2. Only .cc files of trainer/ and tests
// include this.
#pragma once

#include <torch/torch.h>

#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"
#include "trainer/old_model_torch.h"

namespace lightcone {

// Threads: const methods are safe concurrently.
class FrozenFeatures {
 public:
  // `form` names the embedded view of an image. "augmented-once": one augmented view for the whole training, drawn from
  // config.seed (MixBCT's and BT2's releases); "plain": the plain image; "batch": each step's augmented batch. `model`
  // must outlive the object. Memory: images x dimension floats. Errors as BatchLoader::Create and Encoder.
  static absl::StatusOr<FrozenFeatures> Create(const OldModel& model, const Dataset& dataset, const TrainConfig& config,
                                               std::string_view form);

  // Unit rows without gradient, [b, d], on the device of the images. `rows` [b], on the CPU, are positions in the
  // training set.
  torch::Tensor Of(const torch::Tensor& images, const torch::Tensor& rows) const;

  // Unit rows of every training image, [n, d] on the CPU; of plain images for "batch".
  const torch::Tensor& all() const { return all_; }

 private:
  FrozenFeatures(const OldModel& model, torch::Tensor all, bool each_batch)
      : model_(&model), all_(std::move(all)), each_batch_(each_batch) {}

  const OldModel* model_;
  torch::Tensor all_;
  bool each_batch_;
};

}  // namespace lightcone
