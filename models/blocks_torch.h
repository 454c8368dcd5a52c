// Convolution and batch norm in one module, the brick of both CNNs. Internal to models/.
#pragma once

#include <torch/torch.h>

namespace lightcone::internal {

// Bias-free convolution (padding keeps the size at stride 1), then batch norm. No activation.
class ConvNorm : public torch::nn::Module {
 public:
  ConvNorm(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    conv_ = register_module(
        "conv",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false)));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(out));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm_->forward(conv_->forward(x)); }

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
};

// Mean over height and width: [n, c, h, w] -> [n, c].
inline torch::Tensor GlobalPool(const torch::Tensor& x) { return x.mean({2, 3}); }

}  // namespace lightcone::internal
