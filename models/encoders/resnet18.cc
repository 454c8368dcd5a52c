// ResNet-18 (He et al. 2015).
#include "models/encoders/resnet_torch.h"

namespace lightcone::internal {
namespace {

class BasicBlock : public torch::nn::Module {
 public:
  static constexpr int64_t kExpansion = 1;
  BasicBlock(int64_t in, int64_t out, int64_t stride) {
    first_ = register_module("first", std::make_shared<ConvNorm>(in, out, 3, stride));
    second_ = register_module("second", std::make_shared<ConvNorm>(out, out, 3, 1));
    if (stride != 1 || in != out) {
      shortcut_ = register_module("shortcut", std::make_shared<ConvNorm>(in, out, 1, stride));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = second_->forward(first_->forward(x).relu_());
    y = y + (shortcut_ == nullptr ? x : shortcut_->forward(x));
    return y.relu_();
  }

 private:
  std::shared_ptr<ConvNorm> first_, second_, shortcut_;
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeResnet18(const EncoderConfig& config) {
  return std::make_shared<Resnet<BasicBlock>>(config, kResnet18Blocks);
}

}  // namespace lightcone::internal
