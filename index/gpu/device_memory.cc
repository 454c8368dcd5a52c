#include "index/gpu/device_memory.h"

#include "base/status.h"

namespace lightcone::gpu {

DeviceMemory::~DeviceMemory() {
  if (at_ != nullptr) budget_->GiveBack(at_, bytes_);
}

absl::StatusOr<DeviceMemory> DeviceBudget::Take(int64_t bytes) {
  const int64_t before = bytes_.fetch_add(bytes);
  if (before + bytes > bytes_max_) {
    bytes_.fetch_sub(bytes);
    return ResourceExhausted(StrCat(bytes, " bytes do not fit on the device beside ", before, "; engine.gpu_memory_bytes_max is ",
                                    bytes_max_));
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
  given_back_.fetch_add(1, std::memory_order_release);
}

}  // namespace lightcone::gpu
