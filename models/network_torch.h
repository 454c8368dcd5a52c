// The encoder as a torch module. Only .cc files of models/ and trainer/, and their tests, include this.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/architecture.h"

namespace lightcone {

// Backbone, linear head and rescale (docs/training.md, steps 1 and 2): images [n, c, h, w] -> z' [n, d], before the
// clip.
// Threads: forward in eval mode is safe concurrently; training is for one thread.
class EncoderNetwork : public torch::nn::Module {
 public:
  // `features` is the width of what Backbone gives.
  EncoderNetwork(const EncoderConfig& config, int64_t features);

  torch::Tensor forward(const torch::Tensor& images);

  // Brings a learnable alpha that an optimiser's step moved above 1 back to 1; call it after every step. (A clamp inside
  // `forward` has no gradient beyond its limit: alpha could never come back.)
  void LimitRescale();

  const EncoderConfig& config() const { return config_; }

 protected:
  // [n, c, h, w] -> [n, features].
  virtual torch::Tensor Backbone(const torch::Tensor& images) = 0;

 private:
  const EncoderConfig config_;
  torch::nn::Linear head_{nullptr};
  torch::nn::BatchNorm1d head_norm_{nullptr};
  torch::Tensor log_alpha_;  // defined when rescale is learnable
};

// Builds the network with weights drawn from `seed` alone (the process-wide generator is left as it was): convolutions
// He normal over the fan-out, linear layers U(+-fan_in^-1/2), batch norms 1 and 0. INVALID_ARGUMENT as
// config.Validate().
absl::StatusOr<std::shared_ptr<EncoderNetwork>> BuildNetwork(const EncoderConfig& config, uint64_t seed);

// Sum of the elements of all parameters.
int64_t CountParameters(const torch::nn::Module& module);

// The backbones, one file each; BuildNetwork is the only caller.
namespace internal {
std::shared_ptr<EncoderNetwork> MakeSmallCnn(const EncoderConfig& config);
std::shared_ptr<EncoderNetwork> MakeResnet18(const EncoderConfig& config);
std::shared_ptr<EncoderNetwork> MakeMlp(const EncoderConfig& config);
}  // namespace internal

}  // namespace lightcone
