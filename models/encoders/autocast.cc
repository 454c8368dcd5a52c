#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "models/encoders/autocast_torch.h"

namespace lightcone::internal {
namespace {

void Switch(c10::DeviceType device, bool on) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  at::autocast::set_autocast_enabled(device, on);
  if (on) at::autocast::set_autocast_dtype(device, at::kBFloat16);
#else
  if (device == at::kCUDA) {
    at::autocast::set_enabled(on);
    if (on) at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    return;
  }
  at::autocast::set_cpu_enabled(on);
  if (on) at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
#endif
}

}  // namespace

Bf16Scope::Bf16Scope(c10::DeviceType device) : device_(device) { Switch(device_, true); }

Bf16Scope::~Bf16Scope() {
  Switch(device_, false);
  at::autocast::clear_cache();  // bfloat16 copies of the weights, which the optimiser's step is about to change
}

}  // namespace lightcone::internal
