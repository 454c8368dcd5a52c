// The frozen model that a new one is trained to be compatible with. Only .cc files of trainer/ and tests include this.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/encoders/encoder.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Threads: const methods are safe concurrently.
class OldModel {
 public:
  // Loads a trained folder (manifest.json and encoder). FAILED_PRECONDITION for a model that cannot share a space with
  // `config`: another metric, curvature (lorentz), number of channels, or dimension than VectorLayout::prefix. Methods
  // that go through an adapter accept any dimension.
  static absl::StatusOr<std::unique_ptr<OldModel>> Load(const std::string& folder, const TrainConfig& config,
                                                        const Normalisation& normalisation);

  // z of the old model before its clip, [n, d], without gradients, for a batch that was normalised for the *new* model.
  // This function converts between the two normalisations, and resamples another input size like EmbedAll and the
  // server, without rounding to bytes. Images and z lie on config.device.
  torch::Tensor Embed(const torch::Tensor& images) const;

  // z of a whole set of unaugmented images, [n, d] on the CPU.
  absl::StatusOr<torch::Tensor> EmbedAll(const ImageSet& images) const;

  const Manifest& manifest() const { return encoder_->manifest(); }

 private:
  explicit OldModel(std::unique_ptr<Encoder> encoder) : encoder_(std::move(encoder)) {}

  std::unique_ptr<Encoder> encoder_;
  torch::Tensor scale_, shift_;   // change of normalisation, [1, c, 1, 1]; undefined without one
  torch::Tensor rows_, columns_;  // ResizeMatrix of the configured image size, uploaded once
};

}  // namespace lightcone
