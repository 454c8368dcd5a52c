// An operator's TorchScript module in the place of a backbone. Its tensors are registered with a torch::nn::Module that
// mirrors its tree, so that optimisers, checkpoints and moves to a device see them: both hold the same tensors.
#include <torch/script.h>

#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "models/encoders/network_torch.h"

namespace lightcone::internal {
namespace {

constexpr int64_t kFileBytesMax = int64_t{8} << 30;
constexpr int64_t kFeaturesMax = 1 << 20;

absl::Status BadFile(const EncoderConfig& config, const std::string& found, const std::string& allowed) {
  return InvalidField("backbone_file", StrCat(config.backbone_file, found), allowed);
}

// The module with its mirror. Threads: forward in eval mode is safe concurrently.
class ScriptBackbone : public torch::nn::Module {
 public:
  // `frozen`: no parameter is trained. A module without parameters that require grad is frozen anyway.
  ScriptBackbone(torch::jit::Module script, bool frozen) : script_(std::move(script)) {
    Seen seen;
    Mirror(script_, frozen, seen, *this);
    train(is_training());
  }

  // A frozen module stays in eval mode: its batch norms keep their statistics.
  void train(bool on = true) override {
    torch::nn::Module::train(on);
    script_.train(on && trainable_);
  }

  torch::Tensor forward(const torch::Tensor& images) {
    // The profiling executor would run other code in the first calls than later, and a resumed training starts anew.
    torch::jit::GraphOptimizerEnabledGuard no_profiling(false);
    torch::jit::Module handle = script_;  // forward is not const; the copy shares everything
    if (!trainable_) {
      torch::NoGradGuard no_grad;
      return handle.forward({images}).toTensor();
    }
    if (!is_training()) return handle.forward({images}).toTensor();
    LendBuffers();
    torch::Tensor features = handle.forward({images}).toTensor();
    AdoptBuffers();
    return features;
  }

  const torch::jit::Module& script() const { return script_; }

 private:
  struct Buffer {
    torch::Tensor tensor;  // the registered one
    torch::Tensor lent;    // during a training step: the copy that its modules hold
    std::vector<std::pair<torch::jit::Module, std::string>> held;  // by which modules, under which names
  };
  struct Seen {
    std::unordered_set<const void*> parameters;
    std::unordered_map<const void*, size_t> buffers;  // to its place in buffers_
  };

  // A tensor that occurs twice is registered once: it must not be stepped twice.
  void Mirror(const torch::jit::Module& script, bool frozen, Seen& seen, torch::nn::Module& out) {
    for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
      if (!seen.parameters.insert(parameter.value.unsafeGetTensorImpl()).second) continue;
      const bool requires_grad = parameter.value.requires_grad() && !frozen;
      trainable_ = trainable_ || requires_grad;
      out.register_parameter(parameter.name, parameter.value, requires_grad);
    }
    for (const auto& buffer : script.named_buffers(/*recurse=*/false)) {
      if (!buffer.value.defined()) continue;
      const auto [place, first] = seen.buffers.try_emplace(buffer.value.unsafeGetTensorImpl(), buffers_.size());
      if (first) {
        out.register_buffer(buffer.name, buffer.value);
        buffers_.push_back({buffer.value, {}, {}});
      }
      buffers_[place->second].held.emplace_back(script, buffer.name);
    }
    for (const auto& child : script.named_children()) {
      auto mirror = std::make_shared<torch::nn::Module>(child.name);
      Mirror(child.value, frozen, seen, *mirror);
      out.register_module(child.name, mirror);
    }
  }

  // A training step runs on copies of the buffers. A module may assign a new tensor to one (self.scale = self.scale *
  // 2), and the registered tensor, which takes that value, must not be the one that autograd saved for the backward
  // pass.
  void LendBuffers() {
    torch::NoGradGuard no_grad;
    for (Buffer& buffer : buffers_) {
      buffer.lent = buffer.tensor.clone();
      Hold(buffer, buffer.lent);
    }
  }

  void AdoptBuffers() {
    torch::NoGradGuard no_grad;
    for (Buffer& buffer : buffers_) {
      torch::Tensor now = buffer.lent;
      for (auto& [module, name] : buffer.held) {  // the first that has another tensor than it was lent
        const torch::Tensor held = module.attr(name).toTensor();
        if (!held.is_same(buffer.lent)) now = held;
        if (!now.is_same(buffer.lent)) break;
      }
      buffer.tensor.copy_(now);
      buffer.lent = torch::Tensor();
      Hold(buffer, buffer.tensor);
    }
  }

  static void Hold(Buffer& buffer, const torch::Tensor& tensor) {
    for (auto& [module, name] : buffer.held) module.setattr(name, tensor);
  }

  torch::jit::Module script_;
  bool trainable_ = false;
  std::vector<Buffer> buffers_;
};

class TorchscriptNetwork : public EncoderNetwork {
 public:
  TorchscriptNetwork(const EncoderConfig& config, int64_t features, torch::jit::Module script, int64_t crc32c)
      : EncoderNetwork(config, features), crc32c_(crc32c) {
    backbone_ = register_module("backbone", std::make_shared<ScriptBackbone>(std::move(script), config.frozen));
    register_buffer(kBackboneCrc32c, torch::full({}, crc32c, torch::kInt64));
  }

  const torch::jit::Module* script() const override { return &backbone_->script(); }

  // From memory: the file may be gone at the end of a long training.
  absl::StatusOr<std::shared_ptr<EncoderNetwork>> Rebuild() const override {
    torch::NoGradGuard no_grad;  // the copies of parameters are leaves
    torch::jit::Module copy = backbone_->script().deepcopy();
    copy.to(torch::Device(torch::kCPU));
    return std::make_shared<TorchscriptNetwork>(config(), features(), std::move(copy), crc32c_);
  }

 protected:
  torch::Tensor Backbone(const torch::Tensor& images) override { return backbone_->forward(images); }

 private:
  const int64_t crc32c_;
  std::shared_ptr<ScriptBackbone> backbone_;
};

absl::StatusOr<torch::jit::Module> LoadScript(const EncoderConfig& config, const std::string& bytes) {
  try {
    std::istringstream in(bytes);
    torch::jit::Module script = torch::jit::load(in, torch::Device(torch::kCPU));
    if (!script.find_method("forward")) return BadFile(config, " without a method 'forward'", "a module with one");
    return script;
  } catch (const std::exception&) {
    return BadFile(config, StrCat(" of ", bytes.size(), " bytes"), "a TorchScript file that this libtorch reads");
  }
}

// "[2, 3] Float for a batch of [2, 3, 32, 32]", or the first line of what went wrong.
struct Probe {
  std::string found;
  int64_t features = 0;  // 0: not float32 [n, features]
};

Probe TryScript(const EncoderConfig& config, const torch::jit::Module& script, int64_t n) {
  const std::vector<int64_t> input{n, config.channels, config.height, config.width_px};
  std::ostringstream found;
  Probe probe;
  try {
    torch::NoGradGuard no_grad;
    torch::jit::GraphOptimizerEnabledGuard no_profiling(false);
    torch::jit::Module handle = script.deepcopy();  // a forward may change buffers
    const c10::IValue output = handle.forward({torch::zeros(input)});
    if (!output.isTensor()) {
      found << output.tagKind();
    } else {
      const torch::Tensor& features = output.toTensor();
      found << features.sizes() << " " << features.scalar_type();
      if (features.dim() == 2 && features.size(0) == n && features.scalar_type() == torch::kFloat32) {
        probe.features = features.size(1) <= kFeaturesMax ? features.size(1) : 0;
      }
    }
  } catch (const std::exception& e) {
    const std::string what = e.what();
    found << "an error (" << what.substr(0, what.find('\n')) << ")";
  }
  found << " for a batch of " << c10::IntArrayRef(input);
  probe.found = found.str();
  return probe;
}

}  // namespace

absl::StatusOr<std::shared_ptr<EncoderNetwork>> MakeTorchscript(const EncoderConfig& config) {
  absl::StatusOr<std::string> bytes = ReadFile(config.backbone_file, kFileBytesMax);
  if (!bytes.ok()) return Annotate(bytes.status(), "backbone_file");
  LC_ASSIGN_OR_RETURN(torch::jit::Module script, LoadScript(config, *bytes));
  script.eval();
  int64_t features = 0;
  for (const int64_t n : {2, 3}) {  // a traced module may know one batch size only
    const Probe probe = TryScript(config, script, n);
    if (probe.features == 0 || (features != 0 && probe.features != features)) {
      return BadFile(config, StrCat(", which gives ", probe.found),
                     StrCat("a module that gives float32 [n, features], 1 .. ", kFeaturesMax, " features, for any n"));
    }
    features = probe.features;
  }
  return std::make_shared<TorchscriptNetwork>(config, features, std::move(script), int64_t{Crc32c(*bytes)});
}

}  // namespace lightcone::internal
