// Stands in for cuda_machine.cc and the kernels where the program is built without CUDA.
#include "base/status.h"
#include "index/gpu/device_machine.h"

namespace lightcone::gpu {

absl::StatusOr<std::unique_ptr<DeviceMachine>> OpenCudaMachine() {
  return Unavailable(StrCat("built without CUDA: ", LIGHTCONE_NO_CUDA_REASON));
}

}  // namespace lightcone::gpu
