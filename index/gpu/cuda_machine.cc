#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/status.h"
#include "index/gpu/device_machine.h"

namespace lightcone::gpu {
namespace {

constexpr unsigned kBlocksAProcessor = 8;  // more than run at once: the last ones finish about together
// Of all that was started before something is read. A run takes milliseconds; what takes this long does not end.
constexpr std::chrono::seconds kWaitMax{5};
constexpr std::chrono::microseconds kSpin{50}, kNapMax{200};  // short waits are looked at without a break
constexpr int kMajorMin = 8;                                  // least compute capability of the compiled kernels

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
    if (hung_) return;  // Destroying a stream waits for its work.
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
  // Of a device that failed it fails, and nothing depends on it. One that hangs may still write to the memory, and to
  // free that is to wait for it: it is left to the end of the process.
  void Free(void* memory) override {
    if (!hung_) cudaFree(memory);
  }
  absl::Status Upload(void* to, const void* from, int64_t bytes) override {
    LC_RETURN_IF_ERROR(Copy(to, from, bytes, uploads_));
    return Wait(uploads_);
  }

  absl::Status Write(void* to, const void* from, int64_t bytes) override {
    return Copy(to, from, bytes, scans_);  // Pageable memory is staged before the call returns.
  }
  absl::Status Scan(ScanKernel kernel, const ScanLaunch& launch) override {
    return StatusOf(static_cast<cudaError_t>(LaunchScan(kernel, launch, blocks_max_, scans_)), "scan kernel");
  }
  absl::Status Select(const ScanLaunch& launch) override {
    return StatusOf(static_cast<cudaError_t>(LaunchSelect(launch, scans_)), "select kernel");
  }
  absl::Status Read(void* to, const void* from, int64_t width, int64_t pitch, int64_t lines) override {
    const size_t p = static_cast<size_t>(pitch), w = static_cast<size_t>(width), n = static_cast<size_t>(lines);
    // The copy, into pageable memory, waits for the kernels itself, but for ever.
    LC_RETURN_IF_ERROR(Wait(scans_));
    LC_RETURN_IF_ERROR(
        StatusOf(cudaMemcpy2DAsync(to, w, from, p, w, n, cudaMemcpyDeviceToHost, scans_), "cudaMemcpy2DAsync"));
    return Wait(scans_);
  }

 private:
  absl::Status Wait(cudaStream_t stream) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    while (true) {
      const cudaError_t error = cudaStreamQuery(stream);
      if (error != cudaErrorNotReady) return StatusOf(error, "cudaStreamQuery");
      const Clock::duration waited = Clock::now() - begin;
      if (waited > kWaitMax) {
        hung_ = true;
        return Unavailable(StrCat("what was started has not ended in ", kWaitMax.count(), " s"));
      }
      if (waited > kSpin) std::this_thread::sleep_for(std::min<Clock::duration>(waited / 8, kNapMax));
    }
  }

  static absl::Status Copy(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
    return StatusOf(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream),
                    "cudaMemcpyAsync");
  }

  const std::string name_;
  const unsigned blocks_max_;
  std::atomic<bool> hung_{false};
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
  // A thread that waits for the device leaves its core to others.
  LC_RETURN_IF_ERROR(StatusOf(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "cudaSetDeviceFlags"));
  auto machine = std::make_unique<CudaMachine>(properties);
  LC_RETURN_IF_ERROR(machine->Start());
  return std::unique_ptr<DeviceMachine>(std::move(machine));
}

}  // namespace lightcone::gpu
