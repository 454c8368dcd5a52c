// The encoder architectures by name, and what configures one. No torch here; models/network_torch.h builds them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

struct EncoderConfig {
  std::string architecture = "small-cnn";        // a name of Architectures()
  double width = 1.0;                            // multiplies the channels (small-cnn, resnet18, mlp); 0.0625 .. 8
  int dimension = 128;                           // d of the embedding; 2 .. 4096
  int height = 32, width_px = 32, channels = 3;  // input: 4 .. 1024 pixels a side, 1 or 3 channels
  // Head (docs/training.md): v = Linear(features), then z' = v * alpha.
  std::string rescale = "none";  // none: alpha = 1; fixed: d^-1/2; learnable: exp(parameter), starts at d^-1/2, <= 1
  bool head_bias = true;         // bias of the linear layer
  bool head_batch_norm = false;  // BatchNorm1d after the linear layer (AdvBCT)

  // INVALID_ARGUMENT names the field, the value and what is allowed.
  absl::Status Validate() const;
};

struct ArchitectureInfo {
  std::string name, help;
};

// Every architecture that can be built, in the order of `lightcone train --list`.
const std::vector<ArchitectureInfo>& Architectures();

// Multiply-accumulate operations of one forward pass of one image. REQUIRES: config.Validate() is OK.
double MacsPerImage(const EncoderConfig& config);

}  // namespace lightcone
