// For tests: the smallest configurations of every architecture, TorchScript files as an operator would bring them, and
// a tensor's numbers.
#pragma once

#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/encoders/architecture.h"

namespace lightcone {

inline std::vector<float> Flat(const torch::Tensor& x) {
  const torch::Tensor c = x.contiguous();
  return {c.data_ptr<float>(), c.data_ptr<float>() + c.numel()};
}

// Every architecture that is built from its name (all but torchscript), and those of its variants with other layers.
inline std::vector<std::pair<std::string, EncoderConfig>> SmallEncoders() {
  std::vector<std::pair<std::string, EncoderConfig>> all;
  const auto add = [&](const std::string& architecture, int height, int width_px, const std::string& stem = "auto") {
    EncoderConfig config;
    config.architecture = architecture;
    config.width = 0.0625;
    config.dimension = 10;
    config.height = height;
    config.width_px = width_px;
    config.stem = stem;
    const std::string size = " " + std::to_string(height) + " x " + std::to_string(width_px);
    all.emplace_back(architecture + (stem == "auto" ? "" : " " + stem) + size, config);
  };
  for (const char* name : {"small-cnn", "resnet18", "resnet50", "iresnet18", "iresnet50", "mlp"}) add(name, 10, 12);
  add("resnet18", 33, 20, "imagenet");
  add("resnet50", 33, 20, "imagenet");
  add("vgg13", 32, 70);
  add("alexnet", 15, 18);
  add("alexnet", 63, 79, "imagenet");
  add("alexnet", 64, 20, "cifar");  // a map of 7 x 1: pooled to 6 x 1
  add("vit-s16", 32, 48);
  add("vit-b16", 16, 16);
  return all;
}

// Linear without bias, batch norm, ReLU on flattened images. As in many modules of the wild, its code asks for the size
// of the batch, branches on the mode, and assigns a new tensor to a buffer.
inline torch::jit::Module OperatorModule(int64_t pixels, int64_t features, bool trainable) {
  torch::jit::Module module("__torch__.Operator");
  const torch::Tensor weight = torch::sin(torch::arange(pixels * features, torch::kFloat32) * 0.37)
                                   .div_(std::sqrt(static_cast<double>(pixels)))
                                   .reshape({pixels, features})
                                   .clone();
  module.register_parameter("weight", weight.set_requires_grad(trainable), /*is_buffer=*/false);
  module.register_buffer("mean", torch::zeros({features}));
  module.register_buffer("variance", torch::ones({features}));
  module.register_buffer("steps", torch::zeros({}, torch::kInt64));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(R"(
def forward(self, images):
    if self.training:
        self.steps = self.steps + 1
    x = torch.matmul(images.reshape([images.size(0), -1]), self.weight)
    x = torch.batch_norm(x, None, None, self.mean, self.variance, self.training, 0.1, 1e-05, False)
    return torch.relu(x)
)");
  return module;
}

// A module whose forward is `body`, the text behind "return ", of `x`.
inline torch::jit::Module ModuleThatReturns(const std::string& body) {
  torch::jit::Module module("__torch__.Returns");
  module.define("def forward(self, x):\n  return " + body + "\n");
  return module;
}

// Batches in training mode, so that the statistics of batch norms are not those of the start. Ends in eval mode.
template <typename Network>
void WarmUp(Network& network, int batches = 12) {
  const EncoderConfig& c = network.config();
  torch::NoGradGuard no_grad;
  network.train();
  for (int i = 0; i < batches; ++i) {
    network.forward(torch::randn({8, c.channels, c.height, c.width_px}) * 2 + 1);
  }
  network.eval();
}

}  // namespace lightcone
