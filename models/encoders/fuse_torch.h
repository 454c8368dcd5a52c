// Batch norms folded into the convolution or linear layer beside them, for inference: fewer passes over each map.
// Internal to models/. Every function changes the layer in place and keeps its type; the arithmetic is float64.
#pragma once

#include <torch/torch.h>

namespace lightcone::internal {

// A module that can do without its batch norms once it is in eval mode. FoldNorms is not to be undone.
class Foldable {
 public:
  virtual ~Foldable() = default;
  virtual void FoldNorms() = 0;
};

// A batch norm in eval mode: y = scale x + shift, [channels] float64 each; scale = weight (variance + eps)^-1/2.
struct ChannelScale {
  torch::Tensor scale, shift;
};
ChannelScale ScaleOf(const torch::nn::BatchNorm1dImpl& norm);
ChannelScale ScaleOf(const torch::nn::BatchNorm2dImpl& norm);

// The layer L becomes y = scale L(x) + shift; it gets a bias when it had none.
void FoldBehind(const ChannelScale& norm, torch::nn::Conv2dImpl& conv);
void FoldBehind(const ChannelScale& norm, torch::nn::LinearImpl& linear);

// The layer L becomes L(scale x + shift), where x is a map [channels, pixels] flattened. (No such function for
// convolutions: their padding is zero behind the norm, which no zero padding before it can give.)
void FoldAhead(const ChannelScale& norm, int64_t pixels, torch::nn::LinearImpl& linear);

}  // namespace lightcone::internal
