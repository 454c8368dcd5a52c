// TorchScript from a C++ module: record the forward pass, then hang the graph into a fresh script module.
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/script.h>

#include <sstream>

#include "base/files.h"
#include "base/status.h"
#include "models/checkpoint_torch.h"
#include "models/network_torch.h"

namespace lightcone {
namespace {

// A copy in eval mode, on the CPU, in plain layout, without gradients: the tracer then takes its weights as constants.
absl::StatusOr<std::shared_ptr<EncoderNetwork>> FrozenCopy(const EncoderNetwork& network) {
  LC_ASSIGN_OR_RETURN(const std::string weights, SaveModule(network));
  LC_ASSIGN_OR_RETURN(std::shared_ptr<EncoderNetwork> copy, BuildNetwork(network.config(), /*seed=*/0));
  LC_RETURN_IF_ERROR(LoadModule(weights, "export", *copy));
  copy->eval();
  for (torch::Tensor& parameter : copy->parameters()) parameter.set_requires_grad(false);
  return copy;
}

torch::jit::Module TraceModule(EncoderNetwork& network) {
  const EncoderConfig& c = network.config();
  // Two images: a batch of one could be recorded as a special case.
  const torch::Tensor example = torch::zeros({2, c.channels, c.height, c.width_px});
  const auto traced = torch::jit::tracer::trace(
      {example},
      [&network](torch::jit::Stack inputs) -> torch::jit::Stack { return {network.forward(inputs[0].toTensor())}; },
      [](const torch::Tensor&) { return std::string(); }, /*strict=*/true, /*force_outplace=*/false);
  const std::shared_ptr<torch::jit::Graph> graph = traced.first->graph;
  torch::jit::Module module("LightconeEncoder");
  graph->insertInput(0, "self")->setType(module._ivalue()->type());
  torch::jit::Function* function = module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), graph);
  module.type()->addMethod(function);
  return module;
}

}  // namespace

absl::StatusOr<uint32_t> ExportTorchScript(const EncoderNetwork& network, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<EncoderNetwork> copy, FrozenCopy(network));
  std::string bytes;
  try {
    torch::NoGradGuard no_grad;
    std::ostringstream out;
    TraceModule(*copy).save(out);
    bytes = std::move(out).str();
  } catch (const std::exception& e) {
    return Internal(StrCat("exporting '", path, "': ", e.what()));
  }
  LC_RETURN_IF_ERROR(WriteFileAtomically(path, bytes));
  return Crc32c(bytes);
}

}  // namespace lightcone
