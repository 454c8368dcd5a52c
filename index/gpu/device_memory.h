// Memory of a device within a budget.
// Threads: all safe from any thread, but a DeviceMemory belongs to its owner.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "index/gpu/device_machine.h"
#include "index/rows/device_copy.h"

namespace lightcone::gpu {

class DeviceBudget;

// Freed at the end. Move only.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::shared_ptr<DeviceBudget> budget, void* at, int64_t bytes)
      : budget_(std::move(budget)), at_(at), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory();

  uint8_t* at() const { return static_cast<uint8_t*>(at_); }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<DeviceBudget> budget_;
  void* at_ = nullptr;
  int64_t bytes_ = 0;
};

class DeviceBudget : public std::enable_shared_from_this<DeviceBudget> {
 public:
  DeviceBudget(std::unique_ptr<DeviceMachine> machine, int64_t bytes_max);

  DeviceMachine& machine() const { return *machine_; }
  int64_t bytes_max() const { return bytes_max_; }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // For those who were refused: they may try again once rows_gone has changed.
  BudgetState state() const {
    return {serial_, rows_gone_.load(std::memory_order_acquire), bytes_max_ - bytes_.load(std::memory_order_acquire)};
  }
  uint64_t serial() const { return serial_; }  // number unique in this process; never 0
  // A segment's rows have gone, and their memory was given back. Other memory comes and goes with every few searches.
  void CountRowsGone() { rows_gone_.fetch_add(1, std::memory_order_release); }

  // RESOURCE_EXHAUSTED beyond the budget or the device; any other error: the device is lost.
  absl::StatusOr<DeviceMemory> Take(int64_t bytes);

 private:
  friend class DeviceMemory;
  void GiveBack(void* at, int64_t bytes);

  const std::unique_ptr<DeviceMachine> machine_;
  const int64_t bytes_max_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<uint64_t> rows_gone_{0};
  const uint64_t serial_;
};

}  // namespace lightcone::gpu
