// The bricks of the networks: convolution and batch norm in one module, dropout that a resumed training repeats, and
// what gives them their first numbers. Internal to models/.
#pragma once

#include <torch/torch.h>

#include "models/encoders/fuse_torch.h"

namespace lightcone::internal {

// A module with parameters or buffers that the general rule of BuildNetwork does not draw; called after that rule.
class SelfInitialised {
 public:
  virtual ~SelfInitialised() = default;
  virtual void Initialise(torch::Generator& generator) = 0;
};

// Convolution (padding keeps the size at stride 1), then batch norm. No activation.
class ConvNorm : public torch::nn::Module, public Foldable {
 public:
  ConvNorm(int64_t in, int64_t out, int64_t kernel, int64_t stride, bool bias = false) {
    conv_ = register_module(
        "conv",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(bias)));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(out));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = conv_->forward(x);
    return norm_.is_empty() ? y : norm_->forward(y);
  }
  void FoldNorms() override {
    FoldBehind(ScaleOf(*norm_), *conv_);
    norm_ = nullptr;
  }

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
};

// Dropout whose masks are a function of a seed and of the number of earlier calls. Both live in a buffer and so in
// every checkpoint: a resumed training goes on with the masks of an uninterrupted one, and the masks are the same on
// any device. Nothing happens in eval mode. Training is for one thread.
class SeededDropout : public torch::nn::Module, public SelfInitialised {
 public:
  // p: share of the numbers that become 0, in [0, 1); the others are multiplied by 1 / (1 - p).
  explicit SeededDropout(double p);
  torch::Tensor forward(const torch::Tensor& x);
  void Initialise(torch::Generator& generator) override;  // draws the seed

 private:
  const double p_;
  torch::Tensor state_;  // [2] int64: seed and calls, both in 0 .. 2^32 - 1
};

// The two hidden layers of VGG and AlexNet, [n, in] -> [n, hidden]: dropout, linear, ReLU, twice (`dropout_first`), or
// linear, ReLU, dropout, twice.
class HiddenLayers : public torch::nn::Module {
 public:
  HiddenLayers(int64_t in, int64_t hidden, double dropout, bool dropout_first);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  const bool dropout_first_;
  torch::nn::Linear first_{nullptr}, second_{nullptr};
  std::shared_ptr<SeededDropout> first_dropout_, second_dropout_;
};

// Mean over height and width: [n, c, h, w] -> [n, c].
inline torch::Tensor GlobalPool(const torch::Tensor& x) { return x.mean({2, 3}); }

}  // namespace lightcone::internal
