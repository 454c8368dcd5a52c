// The encoder as a torch module. Only .cc files of models/ and trainer/, and their tests, include this.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/encoders/architecture.h"

namespace lightcone {

// Backbone, linear head and rescale (docs/internals/training-methods.md, steps 1 and 2): images [n, c, h, w] -> z' [n,
// d], before the clip.
// Threads: forward in eval mode is safe concurrently; training is for one thread.
class EncoderNetwork : public torch::nn::Module {
 public:
  // `features` is the width of what Backbone gives.
  EncoderNetwork(const EncoderConfig& config, int64_t features);

  torch::Tensor forward(const torch::Tensor& images);

  // Whether training steps compute the backbone in bfloat16, with float32 weights, head and gradients. Eval mode never
  // does.
  void TrainInBf16(bool on) { bf16_ = on; }

  // What follows the backbone: features [n, features()] -> z' [n, d].
  torch::Tensor Finish(const torch::Tensor& features);

  // Brings a learnable alpha that an optimiser's step moved above 1 back to 1; call it after every step. (A clamp
  // inside `forward` has no gradient beyond its limit: alpha could never come back.)
  void LimitRescale();

  // Eval mode for good: folds batch norms and alpha into the layers beside them (models/encoders/fuse_torch.h). The
  // output stays the same up to rounding; parameters and buffers do not mean what they did, so do this to a copy only.
  void FoldForInference();

  // The same layers with weights of no meaning, on the CPU, for a saved state to be loaded into.
  virtual absl::StatusOr<std::shared_ptr<EncoderNetwork>> Rebuild() const;

  // The operator's module when that is the backbone, else nullptr.
  virtual const torch::jit::Module* script() const { return nullptr; }

  const EncoderConfig& config() const { return config_; }
  int64_t features() const { return features_; }

 protected:
  // [n, c, h, w] -> [n, features].
  virtual torch::Tensor Backbone(const torch::Tensor& images) = 0;

  // Batch norms that a backbone owns itself, rather than a Foldable block of it; `head` takes its features.
  virtual void FoldBackbone(torch::nn::LinearImpl& head) {}

 private:
  const EncoderConfig config_;
  const int64_t features_;
  bool folded_ = false, bf16_ = false;
  torch::nn::Linear head_{nullptr};
  torch::nn::BatchNorm1d head_norm_{nullptr};
  torch::Tensor log_alpha_;  // defined when rescale is learnable
};

// Builds the network with weights drawn from `seed` alone: convolutions He normal over the fan-out and without bias,
// linear layers U(+-fan_in^-1/2), batch norms 1 and 0, PReLU 0.25; a ViT's patch layer N(0, 1/fan_in), its class token
// and positions N(0, 0.02^2). A TorchScript backbone keeps the weights of its file. INVALID_ARGUMENT as
// config.Validate(), or when the backbone's file is no TorchScript or gives no [n, features]; NOT_FOUND: no such file.
absl::StatusOr<std::shared_ptr<EncoderNetwork>> BuildNetwork(const EncoderConfig& config, uint64_t seed);

// [n, c, h, w] with channels innermost, as convolutions on a CPU like it. Images of one channel are the same bytes in
// either layout, and torch would take them for the other: their strides say which.
torch::Tensor InChannelsLast(const torch::Tensor& images);

// Sum of the elements of all parameters.
int64_t CountParameters(const torch::nn::Module& module);

// The backbones, one file each; BuildNetwork is the only caller.
namespace internal {
std::shared_ptr<EncoderNetwork> MakeSmallCnn(const EncoderConfig& config);
std::shared_ptr<EncoderNetwork> MakeResnet18(const EncoderConfig& config);
std::shared_ptr<EncoderNetwork> MakeResnet50(const EncoderConfig& config);
std::shared_ptr<EncoderNetwork> MakeIresnet(const EncoderConfig& config);  // iresnet18, iresnet50
std::shared_ptr<EncoderNetwork> MakeVgg13(const EncoderConfig& config);
std::shared_ptr<EncoderNetwork> MakeAlexnet(const EncoderConfig& config);
std::shared_ptr<EncoderNetwork> MakeVit(const EncoderConfig& config);  // vit-s16, vit-b16
std::shared_ptr<EncoderNetwork> MakeMlp(const EncoderConfig& config);
absl::StatusOr<std::shared_ptr<EncoderNetwork>> MakeTorchscript(const EncoderConfig& config);

// Buffer of a network with a TorchScript backbone: the CRC-32C of its file. Loading a state that was saved with another
// file is refused.
inline constexpr char kBackboneCrc32c[] = "backbone_crc32c";
}  // namespace internal

}  // namespace lightcone
