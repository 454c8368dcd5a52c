// The encoder architectures by name, and what configures one. No torch here; models/encoders/network_torch.h builds
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

struct EncoderConfig {
  std::string architecture = "small-cnn";  // a name of Architectures()
  // Multiplies the channels (vit-s16, vit-b16: the attention heads of 64 channels); 0.0625 .. 8; 1 for torchscript.
  double width = 1.0;
  int dimension = 128;                           // d of the embedding; 2 .. 4096
  int height = 32, width_px = 32, channels = 3;  // input: 4 .. 1024 pixels a side, 1 or 3 channels
  // First layers of resnet18, resnet50 and alexnet. cifar: 3x3, stride 1 (ResNets without pooling); imagenet: 7x7
  // (AlexNet 11x11) with stride and pooling; auto: imagenet when both sides have at least 128 pixels.
  std::string stem = "auto";
  std::string backbone_file;  // torchscript: the module, float32 [n, c, h, w] -> float32 [n, features]
  bool frozen = false;        // torchscript: train the head only
  // Head (docs/internals/training-methods.md): v = Linear(features), then z' = v * alpha.
  std::string rescale = "none";  // none: alpha = 1; fixed: d^-1/2; learnable: exp(parameter), starts at d^-1/2, <= 1
  bool head_bias = true;         // bias of the linear layer
  bool head_batch_norm = false;  // BatchNorm1d after the linear layer (AdvBCT); IResNets have it always

  // INVALID_ARGUMENT names the field, the value and what is allowed; among it the image sizes that an architecture
  // takes. Does not open `backbone_file`.
  absl::Status Validate() const;
};

struct ArchitectureInfo {
  std::string name, help;
};

// Every architecture that can be built, in the order of `lightcone train --list`.
const std::vector<ArchitectureInfo>& Architectures();

// "cifar" or "imagenet" for an architecture that has the choice, else empty.
std::string StemOf(const EncoderConfig& config);

// Whether a batch norm follows the linear layer of the head: an option, and part of the IResNets.
bool HasHeadBatchNorm(const EncoderConfig& config);

// Multiply-accumulate operations of one forward pass of one image; norms, activations and pooling do not count.
// 0 for torchscript, whose cost only its file knows. REQUIRES: config.Validate() is OK.
double MacsPerImage(const EncoderConfig& config);

// Elements of all parameters, head included; 0 for torchscript. REQUIRES: config.Validate() is OK.
int64_t ParameterCount(const EncoderConfig& config);

}  // namespace lightcone
