// Two hidden layers on the flattened pixels: the smallest encoder, for tests and tiny inputs.
#include "models/encoders/fuse_torch.h"
#include "models/encoders/layout.h"
#include "models/encoders/network_torch.h"

namespace lightcone::internal {
namespace {

class Mlp : public EncoderNetwork {
 public:
  explicit Mlp(const EncoderConfig& config) : EncoderNetwork(config, Channels(config.width, kMlpHidden)) {
    const int64_t pixels = int64_t{config.height} * config.width_px * config.channels;
    const int64_t hidden = Channels(config.width, kMlpHidden);
    first_ = register_module("first", torch::nn::Linear(pixels, hidden));
    first_norm_ = register_module("first_norm", torch::nn::BatchNorm1d(hidden));
    second_ = register_module("second", torch::nn::Linear(hidden, hidden));
    second_norm_ = register_module("second_norm", torch::nn::BatchNorm1d(hidden));
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override {
    torch::Tensor x = first_->forward(images.flatten(1));
    if (!first_norm_.is_empty()) x = first_norm_->forward(x);
    x = second_->forward(x.relu_());
    if (!second_norm_.is_empty()) x = second_norm_->forward(x);
    return x.relu_();
  }
  void FoldBackbone(torch::nn::LinearImpl& head) override {
    FoldBehind(ScaleOf(*first_norm_), *first_);
    FoldBehind(ScaleOf(*second_norm_), *second_);
    first_norm_ = second_norm_ = nullptr;
  }

 private:
  torch::nn::Linear first_{nullptr}, second_{nullptr};
  torch::nn::BatchNorm1d first_norm_{nullptr}, second_norm_{nullptr};
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeMlp(const EncoderConfig& config) { return std::make_shared<Mlp>(config); }

}  // namespace lightcone::internal
