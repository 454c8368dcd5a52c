#include "models/encoders/checkpoint_torch.h"

#include <map>
#include <sstream>

#include "base/status.h"
#include "models/encoders/network_torch.h"

namespace lightcone {
namespace {

std::map<std::string, torch::Tensor> StateOf(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> state;
  for (const auto& item : module.named_parameters()) state.emplace("p." + item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace("b." + item.key(), item.value());
  return state;
}

std::istringstream StreamOf(std::string_view bytes) { return std::istringstream(std::string(bytes)); }

}  // namespace

absl::StatusOr<std::string> SaveModule(const torch::nn::Module& module) {
  try {
    torch::serialize::OutputArchive archive;
    for (const auto& [name, tensor] : StateOf(module)) {
      archive.write(name, tensor.detach().cpu().contiguous(), /*is_buffer=*/true);
    }
    std::ostringstream out;
    archive.save_to(out);
    return std::move(out).str();
  } catch (const std::exception& e) {
    return Internal(StrCat("saving a module: ", e.what()));
  }
}

absl::Status LoadModule(std::string_view bytes, std::string_view what, torch::nn::Module& module) {
  try {
    torch::NoGradGuard no_grad;
    std::istringstream in = StreamOf(bytes);
    torch::serialize::InputArchive archive;
    archive.load_from(in, torch::Device(torch::kCPU));
    for (auto& [name, tensor] : StateOf(module)) {
      torch::Tensor saved;
      if (!archive.try_read(name, saved, /*is_buffer=*/true)) {
        return DataLoss(StrCat(what, ": no tensor '", name, "'"));
      }
      if (saved.sizes() != tensor.sizes() || saved.scalar_type() != tensor.scalar_type()) {
        return DataLoss(StrCat(what, ": tensor '", name, "' has another shape or type"));
      }
      if (name == StrCat("b.", internal::kBackboneCrc32c) && !torch::equal(saved.cpu(), tensor.cpu())) {
        return FailedPrecondition(StrCat(what, ": was saved with another backbone_file (CRC-32C ",
                                         saved.item<int64_t>(), ", now ", tensor.item<int64_t>(), ")"));
      }
      torch::Tensor(tensor).copy_(saved);
    }
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return DataLoss(StrCat(what, ": unreadable archive"));
  }
}

absl::StatusOr<std::string> SaveOptimizer(const torch::optim::Optimizer& optimizer) {
  try {
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    std::ostringstream out;
    archive.save_to(out);
    return std::move(out).str();
  } catch (const std::exception& e) {
    return Internal(StrCat("saving an optimiser: ", e.what()));
  }
}

absl::Status LoadOptimizer(std::string_view bytes, torch::optim::Optimizer& optimizer) {
  try {
    std::istringstream in = StreamOf(bytes);
    // Its state lies where its parameters do; the file may come from another device.
    const auto& groups = optimizer.param_groups();
    const bool empty = groups.empty() || groups.front().params().empty();
    torch::serialize::InputArchive archive;
    archive.load_from(in, empty ? torch::Device(torch::kCPU) : groups.front().params().front().device());
    optimizer.load(archive);
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return DataLoss("optimiser state: unreadable archive");
  }
}

}  // namespace lightcone
