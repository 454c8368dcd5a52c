// ViT-S/16 and ViT-B/16 (Dosovitskiy et al. 2020; the small one as in DeiT, Touvron et al. 2020): patches of 16x16, a
// class token, learned positions, pre-norm layers with GELU, no dropout; the class token's last state are the features.
#include <cmath>
#include <vector>

#include "models/encoders/blocks_torch.h"
#include "models/encoders/layout.h"
#include "models/encoders/network_torch.h"

namespace lightcone::internal {
namespace {

constexpr double kLayerNormEps = 1e-6;

torch::nn::LayerNorm MakeNorm(int64_t d) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({d}).eps(kLayerNormEps));
}

// Sizes come from the configuration, never from a tensor: what an export records must hold for any batch.
class Tokens : public torch::nn::Module, public SelfInitialised {
 public:
  Tokens(const EncoderConfig& config, int64_t d)
      : count_(int64_t{config.height / kVitPatch} * (config.width_px / kVitPatch) + 1) {
    patches_ = register_module(
        "patches", torch::nn::Conv2d(torch::nn::Conv2dOptions(config.channels, d, kVitPatch).stride(kVitPatch)));
    class_token_ = register_parameter("class_token", torch::zeros({1, 1, d}));
    positions_ = register_parameter("positions", torch::zeros({1, count_, d}));
  }
  int64_t count() const { return count_; }

  // [n, c, h, w] -> [n, count, d]; the class token is the first. It is added to a row of zeros in front of the patches.
  torch::Tensor forward(const torch::Tensor& images) {
    const torch::Tensor x = patches_->forward(images).flatten(2).transpose(1, 2);
    const torch::Tensor first = torch::constant_pad_nd(class_token_, {0, 0, 0, count_ - 1});
    return torch::constant_pad_nd(x, {0, 0, 1, 0}) + (positions_ + first);
  }
  void Initialise(torch::Generator& generator) override {
    const double fan_in = static_cast<double>(patches_->weight[0].numel());
    patches_->weight.normal_(0.0, std::sqrt(1.0 / fan_in), generator);
    class_token_.normal_(0.0, 0.02, generator);
    positions_.normal_(0.0, 0.02, generator);
  }

 private:
  const int64_t count_;
  torch::nn::Conv2d patches_{nullptr};
  torch::Tensor class_token_, positions_;
};

class Layer : public torch::nn::Module {
 public:
  Layer(int64_t tokens, int64_t heads) : tokens_(tokens), heads_(heads) {
    const int64_t d = heads * kVitHead;
    attention_norm_ = register_module("attention_norm", MakeNorm(d));
    qkv_ = register_module("qkv", torch::nn::Linear(d, 3 * d));
    joined_ = register_module("joined", torch::nn::Linear(d, d));
    hidden_norm_ = register_module("hidden_norm", MakeNorm(d));
    widen_ = register_module("widen", torch::nn::Linear(d, 4 * d));
    narrow_ = register_module("narrow", torch::nn::Linear(4 * d, d));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = x + Attention(attention_norm_->forward(x));
    return y + narrow_->forward(torch::gelu(widen_->forward(hidden_norm_->forward(y))));
  }

 private:
  torch::Tensor Attention(const torch::Tensor& x) {
    // [n, tokens, 3 d] -> [3, n, heads, tokens, 64]
    const torch::Tensor qkv = qkv_->forward(x).reshape({-1, tokens_, 3, heads_, kVitHead}).permute({2, 0, 3, 1, 4});
    const torch::Tensor q = qkv.select(0, 0) * (1.0 / std::sqrt(static_cast<double>(kVitHead)));
    const torch::Tensor weights = torch::softmax(q.matmul(qkv.select(0, 1).transpose(2, 3)), -1);
    const torch::Tensor mixed = weights.matmul(qkv.select(0, 2));
    return joined_->forward(mixed.transpose(1, 2).reshape({-1, tokens_, heads_ * kVitHead}));
  }

  const int64_t tokens_, heads_;
  torch::nn::LayerNorm attention_norm_{nullptr}, hidden_norm_{nullptr};
  torch::nn::Linear qkv_{nullptr}, joined_{nullptr}, widen_{nullptr}, narrow_{nullptr};
};

class Vit : public EncoderNetwork {
 public:
  Vit(const EncoderConfig& config, int64_t heads) : EncoderNetwork(config, heads * kVitHead) {
    tokens_ = register_module("tokens", std::make_shared<Tokens>(config, features()));
    for (int i = 0; i < kVitLayers; ++i) {
      layers_.push_back(register_module("layer" + std::to_string(i), std::make_shared<Layer>(tokens_->count(), heads)));
    }
    norm_ = register_module("norm", MakeNorm(features()));
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override {
    torch::Tensor x = tokens_->forward(images);
    for (const auto& layer : layers_) x = layer->forward(x);
    return norm_->forward(x.select(1, 0));
  }

 private:
  std::shared_ptr<Tokens> tokens_;
  std::vector<std::shared_ptr<Layer>> layers_;
  torch::nn::LayerNorm norm_{nullptr};
};

}  // namespace

std::shared_ptr<EncoderNetwork> MakeVit(const EncoderConfig& config) {
  const int heads = config.architecture == "vit-b16" ? kVitBaseHeads : kVitSmallHeads;
  return std::make_shared<Vit>(config, Heads(config.width, heads));
}

}  // namespace lightcone::internal
