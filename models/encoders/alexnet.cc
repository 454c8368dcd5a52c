// AlexNet in its one-column form (Krizhevsky 2014; sizes as in torchvision). The stem for small images is 3x3, stride 1
// in place of 11x11, stride 4. The map is pooled to at most 6x6 before the first linear layer (as in VGG-13).
#include <vector>

#include "models/encoders/blocks_torch.h"
#include "models/encoders/layout.h"
#include "models/encoders/network_torch.h"

namespace lightcone::internal {
namespace {

torch::nn::Conv2d MakeConv(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding));
}

class Alexnet : public EncoderNetwork {
 public:
  explicit Alexnet(const EncoderConfig& config)
      : EncoderNetwork(config, Channels(config.width, kClassifierHidden)),
        map_(AlexnetMap(config)),
        grid_(AtMost(map_, kAlexnetGrid)) {
    const Stem stem = StemLayout(config);
    int64_t in = config.channels;
    for (const AlexnetConv& conv : kAlexnetConvs) {
      const int64_t out = Channels(config.width, conv.channels);
      torch::nn::Conv2d layer = conv.kernel == 0 ? MakeConv(in, out, stem.kernel, stem.stride, stem.padding)
                                                 : MakeConv(in, out, conv.kernel, 1, conv.kernel / 2);
      convs_.push_back(register_module("conv" + std::to_string(convs_.size()), layer));
      in = out;
    }
    hidden_ = register_module("hidden", std::make_shared<HiddenLayers>(in * grid_.area(), features(),
                                                                       kClassifierDropout, /*dropout_first=*/true));
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override {
    torch::Tensor x = images;
    for (size_t i = 0; i < convs_.size(); ++i) {
      x = convs_[i]->forward(x).relu_();
      if (kAlexnetConvs[i].pooled) x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2);
    }
    if (grid_.area() != map_.area()) x = torch::adaptive_avg_pool2d(x, {grid_.height, grid_.width});
    return hidden_->forward(x.flatten(1));
  }

 private:
  const MapSize map_, grid_;
  std::vector<torch::nn::Conv2d> convs_;
  std::shared_ptr<HiddenLayers> hidden_;
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeAlexnet(const EncoderConfig& config) { return std::make_shared<Alexnet>(config); }

}  // namespace lightcone::internal
