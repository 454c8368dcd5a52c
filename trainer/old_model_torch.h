// The frozen model that a new one is trained to be compatible with. Only .cc files of trainer/ and tests include this.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/encoder.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Threads: const methods are safe concurrently.
class OldModel {
 public:
  // Loads a trained folder (manifest.json and encoder). FAILED_PRECONDITION when its metric,
  // dimension (VectorLayout::prefix of `config`; methods that go through an adapter take any) or, lorentz, curvature
  // are not `config`'s, or it takes another number of channels: such models cannot share a space.
  static absl::StatusOr<std::unique_ptr<OldModel>> Load(const std::string& folder, const TrainConfig& config,
                                                        const Normalisation& normalisation);

  // z of the old model before its clip, [n, d], without gradients, for a batch that was normalised for the *new* model:
  // the difference of the two normalisations is made up here, and another input size is resampled as EmbedAll and the
  // server do it, without rounding to bytes. Images and z lie on config.device.
  torch::Tensor Embed(const torch::Tensor& images) const;

  // The same for a whole set of unaugmented images: [n, d] on the CPU.
  absl::StatusOr<torch::Tensor> EmbedAll(const ImageSet& images) const;

  const Manifest& manifest() const { return encoder_->manifest(); }

 private:
  explicit OldModel(std::unique_ptr<Encoder> encoder) : encoder_(std::move(encoder)) {}

  std::unique_ptr<Encoder> encoder_;
  torch::Tensor scale_, shift_;   // [1, c, 1, 1]; undefined when the normalisations agree
  torch::Tensor rows_, columns_;  // ResizeMatrix from `config`'s image size: a step uploads nothing
};

}  // namespace lightcone
