// A residual CNN that trains in minutes on two cores: a stem, then three stages of (stride-2 convolution, residual
// one).
#include "models/encoders/blocks_torch.h"
#include "models/encoders/layout.h"
#include "models/encoders/network_torch.h"

namespace lightcone::internal {
namespace {

class SmallCnn : public EncoderNetwork {
 public:
  explicit SmallCnn(const EncoderConfig& config) : EncoderNetwork(config, Channels(config.width, kSmallCnnStages[2])) {
    int64_t in = Channels(config.width, kSmallCnnStem);
    stem_ = register_module("stem", std::make_shared<ConvNorm>(config.channels, in, 3, 1));
    for (int stage = 0; stage < 3; ++stage) {
      const int64_t out = Channels(config.width, kSmallCnnStages[stage]);
      const std::string name = "stage" + std::to_string(stage);
      down_[stage] = register_module(name + "_down", std::make_shared<ConvNorm>(in, out, 3, 2));
      keep_[stage] = register_module(name + "_keep", std::make_shared<ConvNorm>(out, out, 3, 1));
      in = out;
    }
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override {
    torch::Tensor x = stem_->forward(images).relu_();
    for (int stage = 0; stage < 3; ++stage) {
      x = down_[stage]->forward(x).relu_();
      x = x + keep_[stage]->forward(x).relu_();
    }
    return GlobalPool(x);
  }

 private:
  std::shared_ptr<ConvNorm> stem_, down_[3], keep_[3];
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeSmallCnn(const EncoderConfig& config) { return std::make_shared<SmallCnn>(config); }

}  // namespace lightcone::internal
