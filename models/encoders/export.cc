// TorchScript from a C++ module: record the forward pass, then hang the graph into a fresh script module.
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/script.h>

#include <functional>
#include <sstream>

#include "base/files.h"
#include "base/status.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/network_torch.h"

namespace lightcone {
namespace {

// A copy in eval mode, on the CPU, in plain layout, its batch norms folded, without gradients: the tracer then takes
// its weights as constants.
absl::StatusOr<std::shared_ptr<EncoderNetwork>> InferenceCopy(const EncoderNetwork& network) {
  LC_ASSIGN_OR_RETURN(const std::string weights, SaveModule(network));
  LC_ASSIGN_OR_RETURN(std::shared_ptr<EncoderNetwork> copy, network.Rebuild());
  LC_RETURN_IF_ERROR(LoadModule(weights, "export", *copy));
  for (torch::Tensor& parameter : copy->parameters()) parameter.set_requires_grad(false);
  copy->FoldForInference();
  return copy;
}

using Function = std::function<torch::Tensor(const torch::Tensor&)>;

// A module whose forward is the operations that `function` applied to zeros of `shape`. Its first size is the batch:
// two rows, as a batch of one could be recorded as a special case.
torch::jit::Module Record(const std::string& name, const std::vector<int64_t>& shape, const Function& function) {
  const auto traced = torch::jit::tracer::trace(
      {torch::zeros(shape)},
      [&](torch::jit::Stack inputs) -> torch::jit::Stack { return {function(inputs[0].toTensor())}; },
      [](const torch::Tensor&) { return std::string(); }, /*strict=*/true, /*force_outplace=*/false);
  const std::shared_ptr<torch::jit::Graph> graph = traced.first->graph;
  torch::jit::Module module(name);
  graph->insertInput(0, "self")->setType(module._ivalue()->type());
  torch::jit::Function* method = module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), graph);
  module.type()->addMethod(method);
  return module;
}

// An operator's module is not recorded, as its control flow and its use of sizes would be lost: it goes into the export
// as it is, with a recorded head behind it.
torch::jit::Module JoinScriptAndHead(const torch::jit::Module& script, const torch::jit::Module& head) {
  torch::jit::Module whole("LightconeEncoder");
  whole.register_module("backbone", script);
  whole.register_module("head", head);
  whole.define("def forward(self, images):\n  return self.head.forward(self.backbone.forward(images))\n");
  whole.eval();
  // Makes constants of its weights and folds its batch norms. What torch cannot freeze is exported as it is.
  try {
    return torch::jit::freeze(whole);
  } catch (const std::exception&) {
    return whole;
  }
}

torch::jit::Module Exported(EncoderNetwork& copy, const OutputTransform& transform) {
  const EncoderConfig& c = copy.config();
  const auto finished = [&](const torch::Tensor& z) { return transform ? transform(z) : z; };
  if (copy.script() == nullptr) {
    return Record("LightconeEncoder", {2, c.channels, c.height, c.width_px},
                  [&](const torch::Tensor& images) { return finished(copy.forward(images)); });
  }
  const torch::jit::Module head = Record("LightconeHead", {2, copy.features()}, [&](const torch::Tensor& features) {
    return finished(copy.Finish(features));
  });
  return JoinScriptAndHead(*copy.script(), head);
}

}  // namespace

absl::StatusOr<uint32_t> ExportTorchScript(const EncoderNetwork& network, const std::string& path,
                                           const OutputTransform& transform) {
  std::string bytes;
  try {
    torch::NoGradGuard no_grad;
    LC_ASSIGN_OR_RETURN(const std::shared_ptr<EncoderNetwork> copy, InferenceCopy(network));
    std::ostringstream out;
    Exported(*copy, transform).save(out);
    bytes = std::move(out).str();
  } catch (const std::exception& e) {
    return Internal(StrCat("exporting '", path, "': ", e.what()));
  }
  LC_RETURN_IF_ERROR(WriteFileAtomically(path, bytes));
  return Crc32c(bytes);
}

}  // namespace lightcone
