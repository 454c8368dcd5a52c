#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "index/gpu/device_machine.h"

namespace lightcone::gpu {
namespace {

constexpr unsigned kBlocksAProcessor = 8;  // more than run at once: the last ones finish about together
constexpr int kMajorMin = 8;               // what the kernels are compiled for begins with 8.0

absl::Status StatusOf(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string text = StrCat(call, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return ResourceExhausted(text);
  return Unavailable(text);
}

class CudaMachine final : public DeviceMachine {
 public:
  CudaMachine(const cudaDeviceProp& properties)
      : name_(StrCat(properties.name, ", compute capability ", properties.major, ".", properties.minor, ", ",
                     properties.totalGlobalMem >> 20, " MiB")),
        blocks_max_(static_cast<unsigned>(properties.multiProcessorCount) * kBlocksAProcessor) {}
  ~CudaMachine() override {
    if (scans_ != nullptr) cudaStreamDestroy(scans_);
    if (uploads_ != nullptr) cudaStreamDestroy(uploads_);
  }

  absl::Status Start() {
    LC_RETURN_IF_ERROR(StatusOf(cudaStreamCreateWithFlags(&scans_, cudaStreamNonBlocking), "cudaStreamCreate"));
    return StatusOf(cudaStreamCreateWithFlags(&uploads_, cudaStreamNonBlocking), "cudaStreamCreate");
  }

  const std::string& name() const override { return name_; }
  absl::StatusOr<int64_t> FreeBytes() override {
    size_t free = 0, total = 0;
    LC_RETURN_IF_ERROR(StatusOf(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return static_cast<int64_t>(free);
  }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
    // Such an error is remembered, and would be taken for that of the next launch.
    if (error == cudaErrorMemoryAllocation) cudaGetLastError();
    LC_RETURN_IF_ERROR(StatusOf(error, "cudaMalloc"));
    return memory;
  }
  void Free(void* memory) override { cudaFree(memory); }  // of a lost device it fails, and nothing depends on it
  absl::Status Upload(void* to, const void* from, int64_t bytes) override {
    LC_RETURN_IF_ERROR(Copy(to, from, bytes, uploads_));
    return StatusOf(cudaStreamSynchronize(uploads_), "cudaStreamSynchronize");
  }

  absl::Status Write(void* to, const void* from, int64_t bytes) override {
    return Copy(to, from, bytes, scans_);  // from pageable memory: staged before the call returns
  }
  absl::Status Scan(ScanKernel kernel, const ScanLaunch& launch) override {
    return StatusOf(static_cast<cudaError_t>(LaunchScan(kernel, launch, blocks_max_, scans_)), "scan kernel");
  }
  absl::Status Select(const ScanLaunch& launch) override {
    return StatusOf(static_cast<cudaError_t>(LaunchSelect(launch, scans_)), "select kernel");
  }
  absl::Status Read(void* to, const void* from, int64_t width, int64_t pitch, int64_t lines) override {
    const size_t p = static_cast<size_t>(pitch), w = static_cast<size_t>(width), n = static_cast<size_t>(lines);
    LC_RETURN_IF_ERROR(
        StatusOf(cudaMemcpy2DAsync(to, w, from, p, w, n, cudaMemcpyDeviceToHost, scans_), "cudaMemcpy2DAsync"));
    return StatusOf(cudaStreamSynchronize(scans_), "cudaStreamSynchronize");
  }

 private:
  static absl::Status Copy(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
    return StatusOf(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream),
                    "cudaMemcpyAsync");
  }

  const std::string name_;
  const unsigned blocks_max_;
  cudaStream_t scans_ = nullptr, uploads_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMachine>> OpenCudaMachine() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) return Unavailable(StrCat("no CUDA device: ", cudaGetErrorString(error)));
  if (devices == 0) return Unavailable("no CUDA device: the driver counts none");
  cudaDeviceProp properties;
  LC_RETURN_IF_ERROR(StatusOf(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties"));
  if (properties.major < kMajorMin) {
    return Unavailable(StrCat("the CUDA device '", properties.name, "' has compute capability ", properties.major, ".",
                              properties.minor, "; needed: 8.0 or more"));
  }
  auto machine = std::make_unique<CudaMachine>(properties);
  LC_RETURN_IF_ERROR(machine->Start());
  return std::unique_ptr<DeviceMachine>(std::move(machine));
}

}  // namespace lightcone::gpu
