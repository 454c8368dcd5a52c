// A device that is played by the CPU, for tests: it runs the kernels' own source, thread by thread (fibers.h). Its
// memory is garbage until it is written, and is checked for writes beyond its ends. Threads: as DeviceMachine. Settings
// are for one thread, while nothing runs.
#pragma once

#include <atomic>
#include <memory>

#include "index/gpu/device_machine.h"

namespace lightcone::gpu {

class EmulatedMachine final : public DeviceMachine {
 public:
  explicit EmulatedMachine(int64_t bytes = int64_t{1} << 30) : free_(bytes) {}

  // From the n-th call on that could fail, each does: 0 is the next one. As a device that falls off its bus.
  void FailAfter(int64_t calls) { calls_left_ = calls; }
  // Scores are wrong by this much.
  void set_wrong(float wrong) { wrong_ = wrong; }
  int64_t launches() const { return launches_; }

  const std::string& name() const override { return name_; }
  absl::StatusOr<int64_t> FreeBytes() override { return free_.load(); }
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* memory) override;
  absl::Status Upload(void* to, const void* from, int64_t bytes) override { return Write(to, from, bytes); }
  absl::Status Write(void* to, const void* from, int64_t bytes) override;
  absl::Status Scan(ScanKernel kernel, const ScanLaunch& launch) override;
  absl::Status Select(const ScanLaunch& launch) override;
  absl::Status Read(void* to, const void* from, int64_t width, int64_t pitch, int64_t lines) override;

 private:
  absl::Status Call();

  const std::string name_ = "emulated device";
  std::atomic<int64_t> free_, calls_left_{INT64_MAX}, launches_{0};
  float wrong_ = 0;
};

}  // namespace lightcone::gpu
