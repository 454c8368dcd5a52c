// What ResNet-18 and ResNet-50 share: a stem, four stages of blocks, global pooling. Internal to models/.
#pragma once

#include <string>
#include <vector>

#include "models/encoders/blocks_torch.h"
#include "models/encoders/layout.h"
#include "models/encoders/network_torch.h"

namespace lightcone::internal {

// Block(in, inner, stride) maps `in` channels to inner * Block::kExpansion. The stem for small images is 3x3, stride 1,
// without pooling; that of He et al. (2015) is 7x7, stride 2, and a 3x3 max pooling of stride 2.
template <typename Block>
class Resnet : public EncoderNetwork {
 public:
  Resnet(const EncoderConfig& config, const int (&blocks)[4])
      : EncoderNetwork(config, Channels(config.width, kResnetStages[3]) * Block::kExpansion),
        pool_(StemLayout(config).pool) {
    const Stem stem = StemLayout(config);
    int64_t in = Channels(config.width, kResnetStages[0]);
    stem_ = register_module("stem", std::make_shared<ConvNorm>(config.channels, in, stem.kernel, stem.stride));
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t inner = Channels(config.width, kResnetStages[stage]);
      for (int block = 0; block < blocks[stage]; ++block) {
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        blocks_.push_back(register_module("stage" + std::to_string(stage) + "_" + std::to_string(block),
                                          std::make_shared<Block>(in, inner, stride)));
        in = inner * Block::kExpansion;
      }
    }
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override {
    torch::Tensor x = stem_->forward(images).relu_();
    if (pool_) x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (const auto& block : blocks_) x = block->forward(x);
    return GlobalPool(x);
  }

 private:
  const bool pool_;
  std::shared_ptr<ConvNorm> stem_;
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace lightcone::internal
