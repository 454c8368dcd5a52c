// The machine that kernels run on: a CUDA device, or, in tests, one that is played by the CPU.
// Threads: every method is safe from any thread. Upload does not wait for scans; Allocate and Free may (cudaFree waits
// for all that the device does), so that they are not called under locks that searches take. Errors: RESOURCE_EXHAUSTED
// where memory is lacking; any other means that the device is lost. Upload and Read give up after seconds: the device
// hangs then, and what was allocated is never freed, since it may still be written to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/gpu/scan_launch.h"

namespace lightcone::gpu {

class DeviceMachine {
 public:
  virtual ~DeviceMachine() = default;
  virtual const std::string& name() const = 0;  // name that an operator knows
  virtual absl::StatusOr<int64_t> FreeBytes() = 0;
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  // Beside all else; done when it returns.
  virtual absl::Status Upload(void* to, const void* from, int64_t bytes) = 0;

  // These follow one upon another, for one thread at a time. `from` may go when Write returns.
  virtual absl::Status Write(void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status Scan(ScanKernel kernel, const ScanLaunch& launch) = 0;
  virtual absl::Status Select(const ScanLaunch& launch) = 0;
  // Waits for all before it. `lines` times `width` bytes, which begin `pitch` bytes apart in `from` and lie side by
  // side in `to`.
  virtual absl::Status Read(void* to, const void* from, int64_t width, int64_t pitch, int64_t lines) = 0;
};

// The first CUDA device. UNAVAILABLE says why there is none, in the driver's words, or that this program was built
// without CUDA and why.
absl::StatusOr<std::unique_ptr<DeviceMachine>> OpenCudaMachine();

}  // namespace lightcone::gpu
