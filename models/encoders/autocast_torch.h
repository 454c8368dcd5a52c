// Forward passes whose convolutions and matrix products compute in bfloat16. Internal to models/ and trainer/.
#pragma once

#include <torch/torch.h>

namespace lightcone::internal {

// While it lives, this thread's convolutions and products on `device` (CPU or CUDA) take bfloat16 copies of their
// float32 inputs and
// give bfloat16; the autograd graph brings the gradients back to float32. What torch lists as sensitive (norms of
// vectors, softmax, losses) stays float32. Not nested.
class Bf16Scope {
 public:
  explicit Bf16Scope(c10::DeviceType device);
  ~Bf16Scope();
  Bf16Scope(const Bf16Scope&) = delete;
  Bf16Scope& operator=(const Bf16Scope&) = delete;

 private:
  const c10::DeviceType device_;
};

}  // namespace lightcone::internal
