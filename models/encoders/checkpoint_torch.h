// Modules and optimisers as sections of a checkpoint. Only .cc files of models/ and trainer/, and their tests, include
// this.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

// All parameters and buffers, bit for bit, as a torch archive in memory. INTERNAL when torch fails.
absl::StatusOr<std::string> SaveModule(const torch::nn::Module& module);

// Copies a saved archive into `module`, keeping its devices and memory layout. DATA_LOSS (names `what`) when the
// archive is not readable or belongs to a module of another shape; FAILED_PRECONDITION when it was saved with another
// TorchScript backbone file.
absl::Status LoadModule(std::string_view bytes, std::string_view what, torch::nn::Module& module);

// The same for an optimiser's state (momentum and step counts); its parameters must be the same, in the same order, but
// may lie on another device: the state goes to the first one's.
absl::StatusOr<std::string> SaveOptimizer(const torch::optim::Optimizer& optimizer);
absl::Status LoadOptimizer(std::string_view bytes, torch::optim::Optimizer& optimizer);

// Writes the network as TorchScript, which `torch::jit::load` and Python's `torch.jit.load` read: one method "forward",
// float32 [n, c, h, w] -> z before the clip [n, d], any n. Weights are constants of the graph, batch norms are folded
// into the layers beside them (models/encoders/fuse_torch.h); a TorchScript backbone goes in as it is. Atomic and
// durable. Returns the CRC-32C of the file for the manifest. `network` itself is left as it was. ExportTorchScript
// needs an EncoderNetwork of models/encoders/network_torch.h. `transform` (or none) is hung behind the network, so that
// whoever loads the file gets its output: a function of [n, network's dimension] for any n that keeps the rows apart;
// tensors that it holds are on the CPU, without gradient.
class EncoderNetwork;
using OutputTransform = std::function<torch::Tensor(const torch::Tensor&)>;
absl::StatusOr<uint32_t> ExportTorchScript(const EncoderNetwork& network, const std::string& path,
                                           const OutputTransform& transform = {});

}  // namespace lightcone
