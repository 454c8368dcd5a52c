#include "models/encoders/fuse_torch.h"

namespace lightcone::internal {
namespace {

torch::Tensor Wide(const torch::Tensor& x) { return x.detach().to(torch::kFloat64); }

template <typename Norm>
ChannelScale ScaleOfNorm(const Norm& norm) {
  const torch::Tensor scale = Wide(norm.weight) * torch::rsqrt(Wide(norm.running_var) + norm.options.eps());
  return {scale, Wide(norm.bias) - Wide(norm.running_mean) * scale};
}

// Gives `layer` a bias (or another one) of its weight's type.
template <typename Layer>
void SetBias(const torch::Tensor& bias, Layer& layer) {
  layer.bias = bias.to(layer.weight.scalar_type());
}

template <typename Layer>
void ScaleOutputs(const ChannelScale& norm, Layer& layer) {
  torch::NoGradGuard no_grad;
  std::vector<int64_t> by_row(static_cast<size_t>(layer.weight.dim()), 1);
  by_row[0] = -1;
  SetBias(layer.bias.defined() ? Wide(layer.bias) * norm.scale + norm.shift : norm.shift, layer);
  layer.weight.copy_(Wide(layer.weight) * norm.scale.reshape(by_row));
}

}  // namespace

ChannelScale ScaleOf(const torch::nn::BatchNorm1dImpl& norm) { return ScaleOfNorm(norm); }
ChannelScale ScaleOf(const torch::nn::BatchNorm2dImpl& norm) { return ScaleOfNorm(norm); }

void FoldBehind(const ChannelScale& norm, torch::nn::Conv2dImpl& conv) { ScaleOutputs(norm, conv); }
void FoldBehind(const ChannelScale& norm, torch::nn::LinearImpl& linear) { ScaleOutputs(norm, linear); }

void FoldAhead(const ChannelScale& norm, int64_t pixels, torch::nn::LinearImpl& linear) {
  torch::NoGradGuard no_grad;
  const torch::Tensor weight = Wide(linear.weight);
  const torch::Tensor added = weight.matmul(norm.shift.repeat_interleave(pixels));
  SetBias(linear.bias.defined() ? Wide(linear.bias) + added : added, linear);
  linear.weight.copy_(weight * norm.scale.repeat_interleave(pixels));
}

}  // namespace lightcone::internal
