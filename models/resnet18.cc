// ResNet-18 (He et al. 2015) with the stem for small images: 3x3, stride 1, no pooling.
#include "models/blocks_torch.h"
#include "models/layout.h"
#include "models/network_torch.h"

namespace lightcone::internal {
namespace {

class BasicBlock : public torch::nn::Module {
 public:
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

class Resnet18 : public EncoderNetwork {
 public:
  explicit Resnet18(const EncoderConfig& config) : EncoderNetwork(config, Channels(config.width, kResnetStages[3])) {
    int64_t in = Channels(config.width, kResnetStages[0]);
    stem_ = register_module("stem", std::make_shared<ConvNorm>(config.channels, in, 3, 1));
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t out = Channels(config.width, kResnetStages[stage]);
      for (int block = 0; block < 2; ++block) {
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        blocks_.push_back(register_module("stage" + std::to_string(stage) + "_" + std::to_string(block),
                                          std::make_shared<BasicBlock>(in, out, stride)));
        in = out;
      }
    }
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override {
    torch::Tensor x = stem_->forward(images).relu_();
    for (const auto& block : blocks_) x = block->forward(x);
    return GlobalPool(x);
  }

 private:
  std::shared_ptr<ConvNorm> stem_;
  std::vector<std::shared_ptr<BasicBlock>> blocks_;
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeResnet18(const EncoderConfig& config) { return std::make_shared<Resnet18>(config); }

}  // namespace lightcone::internal
