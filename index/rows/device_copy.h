// The state of a segment's copy on the device. It belongs to the segment.
// Threads: safe from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lightcone::gpu {

class DeviceRows;

// A device's budget at one moment. Its serial number, which no later budget gets, identifies it.
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
    kRefused,  // No room: wanted again once a copy has gone and the room suffices.
    kNever     // damaged rows
  };

  // The rows, if the device of this budget has them.
  std::shared_ptr<const DeviceRows> rows(uint64_t serial) const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return state_ == State::kHere && serial == serial_ ? rows_ : nullptr;
  }

  // True for the one caller who has to make the copy. After a refusal only a copy that has gone counts as room, not the
  // memory of failed attempts or of bitmaps.
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

  // Sets the copy on the device of this budget, unless another budget was asked since.
  void Set(uint64_t serial, std::shared_ptr<const DeviceRows> rows) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (serial != serial_) return;
    state_ = State::kHere;
    rows_ = std::move(rows);
  }
  // `before`: the budget before the attempt, so that no copy that goes meanwhile is missed.
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
