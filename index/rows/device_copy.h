// A segment's copy on the device, as far as there is one. Belongs to the segment, and goes with it.
// Threads: safe from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lightcone::gpu {

class DeviceRows;

// A budget as one that asks for a copy sees it. Budgets are told apart by serial numbers, which are not used again as
// addresses are.
struct BudgetState {
  uint64_t serial = 0;     // 0: none
  uint64_t rows_gone = 0;  // copies that have left the budget so far
  int64_t room = 0;        // bytes
};

class DeviceCopy {
 public:
  enum class State {
    kNone,
    kWanted,
    kHere,
    kRefused,  // no room: wanted again once another copy has gone and there is as much as it needs
    kNever     // damaged rows
  };

  // The rows, if they are on the device of this budget.
  std::shared_ptr<const DeviceRows> rows(uint64_t serial) const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return state_ == State::kHere && serial == serial_ ? rows_ : nullptr;
  }

  // True for the one caller who has to make it. A refusal does not ask for itself again: neither the memory of an
  // attempt that failed nor that of bitmaps counts as a copy that has gone.
  bool Want(const BudgetState& budget) ABSL_LOCKS_EXCLUDED(mu_) {
    std::shared_ptr<const DeviceRows> old;  // rows on another device, freed after the lock
    absl::MutexLock lock(&mu_);
    if (state_ == State::kNever) return false;
    if (budget.serial == serial_) {
      if (state_ == State::kWanted || state_ == State::kHere) return false;
      if (state_ == State::kRefused && (budget.rows_gone == rows_gone_ || budget.room < needed_)) return false;
    }
    old.swap(rows_);
    serial_ = budget.serial;
    state_ = State::kWanted;
    return true;
  }

  // What became of it on the device of this budget; nothing changes where another one was asked since.
  void Set(uint64_t serial, std::shared_ptr<const DeviceRows> rows) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (serial != serial_) return;
    state_ = State::kHere;
    rows_ = std::move(rows);
  }
  // `before`: the budget as it was before the attempt, so that what goes meanwhile is not missed.
  void Refuse(const BudgetState& before, int64_t needed) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (before.serial != serial_) return;
    state_ = State::kRefused;
    rows_gone_ = before.rows_gone;
    needed_ = needed;
  }
  void RefuseForEver() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    state_ = State::kNever;
  }

 private:
  mutable absl::Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kNone;
  uint64_t serial_ ABSL_GUARDED_BY(mu_) = 0;     // serial number of the budget asked last
  uint64_t rows_gone_ ABSL_GUARDED_BY(mu_) = 0;  // the budget's rows_gone when it refused
  int64_t needed_ ABSL_GUARDED_BY(mu_) = 0;      // bytes that the copy needed then
  std::shared_ptr<const DeviceRows> rows_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone::gpu
