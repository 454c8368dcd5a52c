#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "models/autocast_torch.h"

namespace lightcone::internal {
namespace {

void Switch(bool on) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  at::autocast::set_autocast_enabled(at::kCPU, on);
  if (on) at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
#else
  at::autocast::set_cpu_enabled(on);
  if (on) at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
#endif
}

}  // namespace

Bf16Scope::Bf16Scope() { Switch(true); }

Bf16Scope::~Bf16Scope() {
  Switch(false);
  at::autocast::clear_cache();  // bfloat16 copies of the weights, which the optimiser's step is about to change
}

}  // namespace lightcone::internal
