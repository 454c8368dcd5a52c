#include "models/encoders/device.h"

#include <torch/torch.h>
#include <torch/version.h>

#include "base/status.h"

namespace lightcone {

absl::StatusOr<std::string> DeviceFor(std::string_view wanted, std::string_view field) {
  if (wanted == "cpu") return std::string("cpu");
  if (wanted != "auto" && wanted != "cuda") return InvalidField(field, wanted, "auto, cpu, cuda");
  if (torch::cuda::is_available()) {
    // Convolutions would round their inputs to 10 bits by default; what is measured there must be what a server embeds.
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
    return std::string("cuda");
  }
  if (wanted == "auto") return std::string("cpu");
  return FieldError(absl::StatusCode::kFailedPrecondition, field, wanted,
                    StrCat("auto or cpu: libtorch ", TORCH_VERSION, " finds no CUDA device here"));
}

}  // namespace lightcone
