// ResNet-50 (He et al. 2015), with the stride of a stage in the 3x3 convolution of its first bottleneck.
#include "models/encoders/resnet_torch.h"

namespace lightcone::internal {
namespace {

class Bottleneck : public torch::nn::Module {
 public:
  static constexpr int64_t kExpansion = kBottleneckExpansion;
  Bottleneck(int64_t in, int64_t inner, int64_t stride) {
    const int64_t out = inner * kExpansion;
    reduce_ = register_module("reduce", std::make_shared<ConvNorm>(in, inner, 1, 1));
    middle_ = register_module("middle", std::make_shared<ConvNorm>(inner, inner, 3, stride));
    expand_ = register_module("expand", std::make_shared<ConvNorm>(inner, out, 1, 1));
    if (stride != 1 || in != out) {
      shortcut_ = register_module("shortcut", std::make_shared<ConvNorm>(in, out, 1, stride));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = middle_->forward(reduce_->forward(x).relu_()).relu_();
    y = expand_->forward(y) + (shortcut_ == nullptr ? x : shortcut_->forward(x));
    return y.relu_();
  }

 private:
  std::shared_ptr<ConvNorm> reduce_, middle_, expand_, shortcut_;
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeResnet50(const EncoderConfig& config) {
  return std::make_shared<Resnet<Bottleneck>>(config, kResnet50Blocks);
}

}  // namespace lightcone::internal
