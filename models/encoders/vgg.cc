// VGG-13 with batch norm behind every convolution (Simonyan and Zisserman 2014, table 1, B; convolutions keep their
// bias as in torchvision's vgg13_bn). The map is pooled to at most 7x7 before the first linear layer: 7x7 at 224 px as
// published, 1x1 at 32 px, where a map blown up to 7x7 would only repeat one number 49 times.
#include <vector>

#include "models/encoders/blocks_torch.h"
#include "models/encoders/layout.h"
#include "models/encoders/network_torch.h"

namespace lightcone::internal {
namespace {

class Vgg13 : public EncoderNetwork {
 public:
  explicit Vgg13(const EncoderConfig& config)
      : EncoderNetwork(config, Channels(config.width, kClassifierHidden)),
        map_(VggMap(config)),
        grid_(AtMost(map_, kVggGrid)) {
    int64_t in = config.channels;
    for (size_t stage = 0; stage < std::size(kVgg13Stages); ++stage) {
      const int64_t out = Channels(config.width, kVgg13Stages[stage]);
      for (const char* place : {"_0", "_1"}) {
        convs_.push_back(register_module("stage" + std::to_string(stage) + place,
                                         std::make_shared<ConvNorm>(in, out, 3, 1, /*bias=*/true)));
        in = out;
      }
    }
    hidden_ = register_module("hidden", std::make_shared<HiddenLayers>(in * grid_.area(), features(),
                                                                       kClassifierDropout, /*dropout_first=*/false));
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override {
    torch::Tensor x = images;
    for (size_t i = 0; i < convs_.size(); ++i) {
      x = convs_[i]->forward(x).relu_();
      if (i % 2 == 1) x = torch::max_pool2d(x, /*kernel_size=*/2, /*stride=*/2);
    }
    if (grid_.area() != map_.area()) x = torch::adaptive_avg_pool2d(x, {grid_.height, grid_.width});
    return hidden_->forward(x.flatten(1));
  }

 private:
  const MapSize map_, grid_;
  std::vector<std::shared_ptr<ConvNorm>> convs_;
  std::shared_ptr<HiddenLayers> hidden_;
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeVgg13(const EncoderConfig& config) { return std::make_shared<Vgg13>(config); }

}  // namespace lightcone::internal
