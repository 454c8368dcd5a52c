// Where networks run: the processor, or a CUDA device where this libtorch knows one. No torch in this header.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lightcone {

// "cpu" or "cuda" for `wanted`, one of auto, cpu, cuda; auto takes a CUDA device when there is one.
// FAILED_PRECONDITION: cuda, and this libtorch knows no device (says why); INVALID_ARGUMENT: another word. Both name
// `field`. When it is cuda, float32 there is whole from then on (no TF32), for the process. Threads: safe.
absl::StatusOr<std::string> DeviceFor(std::string_view wanted, std::string_view field);

}  // namespace lightcone
