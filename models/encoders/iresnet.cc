// IResNet as InsightFace trains it (Deng et al. 2019, ArcFace; the block is the improved residual unit of Han et al.
// 2017): 3x3 stem without pooling, blocks batch norm - convolution - batch norm - PReLU - convolution - batch norm with
// the stride in the second convolution, and batch norm - flatten - linear - batch norm at the end. Their dropout before
// the linear layer is 0 by default and left out here; the last batch norm has no learnt scale, as theirs.
#include <vector>

#include "models/encoders/blocks_torch.h"
#include "models/encoders/layout.h"
#include "models/encoders/network_torch.h"

namespace lightcone::internal {
namespace {

class IrBlock : public torch::nn::Module {
 public:
  IrBlock(int64_t in, int64_t out, int64_t stride, bool project) {
    norm_ = register_module("norm", torch::nn::BatchNorm2d(in));  // stays: see FoldAhead
    first_ = register_module("first", std::make_shared<ConvNorm>(in, out, 3, 1));
    relu_ = register_module("prelu", torch::nn::PReLU(torch::nn::PReLUOptions().num_parameters(out)));
    second_ = register_module("second", std::make_shared<ConvNorm>(out, out, 3, stride));
    if (project) shortcut_ = register_module("shortcut", std::make_shared<ConvNorm>(in, out, 1, stride));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = second_->forward(relu_->forward(first_->forward(norm_->forward(x))));
    return y + (shortcut_ == nullptr ? x : shortcut_->forward(x));
  }

 private:
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::PReLU relu_{nullptr};
  std::shared_ptr<ConvNorm> first_, second_, shortcut_;
};

class Iresnet : public EncoderNetwork {
 public:
  Iresnet(const EncoderConfig& config, const int (&blocks)[4])
      : EncoderNetwork(config, Channels(config.width, kResnetStages[3]) * IresnetMap(config).area()),
        pixels_(IresnetMap(config).area()) {
    int64_t in = Channels(config.width, kResnetStages[0]);
    stem_ = register_module("stem", std::make_shared<ConvNorm>(config.channels, in, 3, 1));
    relu_ = register_module("prelu", torch::nn::PReLU(torch::nn::PReLUOptions().num_parameters(in)));
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t out = Channels(config.width, kResnetStages[stage]);
      for (int block = 0; block < blocks[stage]; ++block) {
        const bool first = block == 0;
        blocks_.push_back(register_module("stage" + std::to_string(stage) + "_" + std::to_string(block),
                                          std::make_shared<IrBlock>(in, out, first ? 2 : 1, first)));
        in = out;
      }
    }
    norm_ = register_module("norm", torch::nn::BatchNorm2d(in));
    named_parameters()["head_norm.weight"].set_requires_grad(false);
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override {
    torch::Tensor x = relu_->forward(stem_->forward(images));
    for (const auto& block : blocks_) x = block->forward(x);
    if (!norm_.is_empty()) x = norm_->forward(x);
    return x.flatten(1);
  }
  void FoldBackbone(torch::nn::LinearImpl& head) override {
    FoldAhead(ScaleOf(*norm_), pixels_, head);
    norm_ = nullptr;
  }

 private:
  const int64_t pixels_;
  std::shared_ptr<ConvNorm> stem_;
  torch::nn::PReLU relu_{nullptr};
  std::vector<std::shared_ptr<IrBlock>> blocks_;
  torch::nn::BatchNorm2d norm_{nullptr};
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeIresnet(const EncoderConfig& config) {
  const bool deep = config.architecture == "iresnet50";
  return std::make_shared<Iresnet>(config, deep ? kIresnet50Blocks : kIresnet18Blocks);
}

}  // namespace lightcone::internal
