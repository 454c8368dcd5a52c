#include <cmath>

#include "base/status.h"
#include "models/encoders/autocast_torch.h"
#include "models/encoders/blocks_torch.h"
#include "models/encoders/network_torch.h"

namespace lightcone {

EncoderNetwork::EncoderNetwork(const EncoderConfig& config, int64_t features) : config_(config), features_(features) {
  head_ = register_module(
      "head", torch::nn::Linear(torch::nn::LinearOptions(features, config.dimension).bias(config.head_bias)));
  if (HasHeadBatchNorm(config)) {
    head_norm_ = register_module("head_norm", torch::nn::BatchNorm1d(config.dimension));
  }
  if (config.rescale == "learnable") {
    const double start = -0.5 * std::log(static_cast<double>(config.dimension));
    log_alpha_ = register_parameter("log_alpha", torch::full({}, start));
  }
}

torch::Tensor EncoderNetwork::forward(const torch::Tensor& images) {
  if (!bf16_ || !is_training()) return Finish(Backbone(images));
  torch::Tensor features;
  {
    const internal::Bf16Scope scope(images.device().type());
    features = Backbone(images);
  }
  return Finish(features.to(torch::kFloat32));
}

torch::Tensor EncoderNetwork::Finish(const torch::Tensor& features) {
  torch::Tensor v = head_->forward(features);
  if (folded_) return v;
  if (!head_norm_.is_empty()) v = head_norm_->forward(v);
  if (config_.rescale == "fixed") return v * (1.0 / std::sqrt(static_cast<double>(config_.dimension)));
  if (config_.rescale == "learnable") return v * torch::exp(log_alpha_);
  return v;
}

void EncoderNetwork::LimitRescale() {
  torch::NoGradGuard no_grad;
  if (log_alpha_.defined()) log_alpha_.clamp_max_(0.0);
}

void EncoderNetwork::FoldForInference() {
  if (folded_) return;
  torch::NoGradGuard no_grad;
  eval();
  for (const auto& child : modules(/*include_self=*/false)) {
    if (auto* block = dynamic_cast<internal::Foldable*>(child.get())) block->FoldNorms();
  }
  FoldBackbone(*head_);
  internal::ChannelScale behind{torch::ones({config_.dimension}, torch::kFloat64),
                                torch::zeros({config_.dimension}, torch::kFloat64)};
  if (!head_norm_.is_empty()) behind = internal::ScaleOf(*head_norm_);
  double alpha = 1;
  if (config_.rescale == "fixed") alpha = 1.0 / std::sqrt(static_cast<double>(config_.dimension));
  if (config_.rescale == "learnable") alpha = std::exp(log_alpha_.item<double>());
  internal::FoldBehind({behind.scale * alpha, behind.shift * alpha}, *head_);
  folded_ = true;
}

absl::StatusOr<std::shared_ptr<EncoderNetwork>> EncoderNetwork::Rebuild() const {
  return BuildNetwork(config_, /*seed=*/0);
}

namespace {

// One generator of its own, so that two trainings in one process, or a resumed one, draw the same weights.
void InitialiseWeights(torch::nn::Module& network, uint64_t seed) {
  torch::NoGradGuard no_grad;
  torch::Generator generator = at::detail::createCPUGenerator(seed);
  for (const auto& child : network.modules(/*include_self=*/false)) {
    if (auto* conv = child->as<torch::nn::Conv2d>()) {
      const double fan_out = static_cast<double>(conv->weight.size(0) * conv->weight.size(2) * conv->weight.size(3));
      conv->weight.normal_(0.0, std::sqrt(2.0 / fan_out), generator);
      if (conv->bias.defined()) conv->bias.zero_();
    } else if (auto* linear = child->as<torch::nn::Linear>()) {
      const double bound = 1.0 / std::sqrt(static_cast<double>(linear->weight.size(1)));
      linear->weight.uniform_(-bound, bound, generator);
      if (linear->bias.defined()) linear->bias.uniform_(-bound, bound, generator);
    }
  }
  for (const auto& child : network.modules(/*include_self=*/false)) {
    if (auto* own = dynamic_cast<internal::SelfInitialised*>(child.get())) own->Initialise(generator);
  }
}

absl::StatusOr<std::shared_ptr<EncoderNetwork>> MakeNetwork(const EncoderConfig& config) {
  const std::string& name = config.architecture;
  if (name == "small-cnn") return internal::MakeSmallCnn(config);
  if (name == "resnet18") return internal::MakeResnet18(config);
  if (name == "resnet50") return internal::MakeResnet50(config);
  if (name == "iresnet18" || name == "iresnet50") return internal::MakeIresnet(config);
  if (name == "vgg13") return internal::MakeVgg13(config);
  if (name == "alexnet") return internal::MakeAlexnet(config);
  if (name == "vit-s16" || name == "vit-b16") return internal::MakeVit(config);
  if (name == "mlp") return internal::MakeMlp(config);
  if (name == "torchscript") return internal::MakeTorchscript(config);
  return Internal(StrCat("no builder for architecture '", name, "'"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<EncoderNetwork>> BuildNetwork(const EncoderConfig& config, uint64_t seed) {
  LC_RETURN_IF_ERROR(config.Validate());
  try {
    LC_ASSIGN_OR_RETURN(std::shared_ptr<EncoderNetwork> network, MakeNetwork(config));
    InitialiseWeights(*network, seed);
    return network;
  } catch (const std::exception& e) {
    return ResourceExhausted(StrCat("building network '", config.architecture, "': ", e.what()));
  }
}

torch::Tensor InChannelsLast(const torch::Tensor& images) {
  if (images.size(1) != 1) return images.contiguous(torch::MemoryFormat::ChannelsLast);
  const int64_t height = images.size(2), width = images.size(3);
  return images.contiguous().as_strided(images.sizes(), {height * width, 1, width, 1});
}

int64_t CountParameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace lightcone
