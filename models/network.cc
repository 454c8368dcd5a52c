#include <cmath>

#include "base/status.h"
#include "models/network_torch.h"

namespace lightcone {

EncoderNetwork::EncoderNetwork(const EncoderConfig& config, int64_t features) : config_(config) {
  head_ = register_module(
      "head", torch::nn::Linear(torch::nn::LinearOptions(features, config.dimension).bias(config.head_bias)));
  if (config.head_batch_norm) {
    head_norm_ = register_module("head_norm", torch::nn::BatchNorm1d(config.dimension));
  }
  if (config.rescale == "learnable") {
    const double start = -0.5 * std::log(static_cast<double>(config.dimension));
    log_alpha_ = register_parameter("log_alpha", torch::full({}, start));
  }
}

torch::Tensor EncoderNetwork::forward(const torch::Tensor& images) {
  torch::Tensor v = head_->forward(Backbone(images));
  if (config_.head_batch_norm) v = head_norm_->forward(v);
  if (config_.rescale == "fixed") return v * (1.0 / std::sqrt(static_cast<double>(config_.dimension)));
  if (config_.rescale == "learnable") return v * torch::exp(log_alpha_);
  return v;
}

void EncoderNetwork::LimitRescale() {
  torch::NoGradGuard no_grad;
  if (log_alpha_.defined()) log_alpha_.clamp_max_(0.0);
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
    } else if (auto* linear = child->as<torch::nn::Linear>()) {
      const double bound = 1.0 / std::sqrt(static_cast<double>(linear->weight.size(1)));
      linear->weight.uniform_(-bound, bound, generator);
      if (linear->bias.defined()) linear->bias.uniform_(-bound, bound, generator);
    }
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<EncoderNetwork>> BuildNetwork(const EncoderConfig& config, uint64_t seed) {
  LC_RETURN_IF_ERROR(config.Validate());
  try {
    std::shared_ptr<EncoderNetwork> network;
    if (config.architecture == "small-cnn") network = internal::MakeSmallCnn(config);
    if (config.architecture == "resnet18") network = internal::MakeResnet18(config);
    if (config.architecture == "mlp") network = internal::MakeMlp(config);
    if (network == nullptr) return Internal(StrCat("no builder for architecture '", config.architecture, "'"));
    InitialiseWeights(*network, seed);
    return network;
  } catch (const std::exception& e) {
    return ResourceExhausted(StrCat("building network '", config.architecture, "': ", e.what()));
  }
}

int64_t CountParameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace lightcone
