#include "index/gpu/device_memory.h"

#include "base/status.h"

namespace lightcone::gpu {

DeviceMemory::~DeviceMemory() {
  if (at_ != nullptr) budget_->GiveBack(at_, bytes_);
}

DeviceBudget::DeviceBudget(std::unique_ptr<DeviceMachine> machine, int64_t bytes_max)
    : machine_(std::move(machine)), bytes_max_(bytes_max), serial_([] {
        static std::atomic<uint64_t> budgets{0};
        return budgets.fetch_add(1) + 1;
      }()) {}

absl::StatusOr<DeviceMemory> DeviceBudget::Take(int64_t bytes) {
  const int64_t before = bytes_.fetch_add(bytes);
  if (before + bytes > bytes_max_) {
    bytes_.fetch_sub(bytes);
    return ResourceExhausted(StrCat(bytes, " bytes do not fit on the device beside ", before,
                                    "; engine.gpu_memory_bytes_max is ", bytes_max_));
  }
  const absl::StatusOr<void*> at = machine_->Allocate(bytes);
  if (!at.ok()) {
    bytes_.fetch_sub(bytes);
    return at.status();
  }
  return DeviceMemory(shared_from_this(), *at, bytes);
}

void DeviceBudget::GiveBack(void* at, int64_t bytes) {
  machine_->Free(at);
  bytes_.fetch_sub(bytes);
}

}  // namespace lightcone::gpu
