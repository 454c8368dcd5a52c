// A segment's copy on the device, as far as there is one. Belongs to the segment, and goes with it.
// Threads: safe from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lightcone::gpu {

class DeviceBudget;
class DeviceRows;

class DeviceCopy {
 public:
  enum class State { kNone, kWanted, kHere, kRefused };

  // The rows, if they are on the device of this budget.
  std::shared_ptr<const DeviceRows> rows(const DeviceBudget* budget) const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return state_ == State::kHere && budget == budget_ ? rows_ : nullptr;
  }

  // True for the one caller who has to make it. Once refused it is asked for again after memory was given back.
  bool Want(const DeviceBudget* budget, uint64_t given_back) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (budget == budget_ && (state_ == State::kWanted || state_ == State::kHere)) return false;
    if (budget == budget_ && state_ == State::kRefused && given_back_ == given_back) return false;
    budget_ = budget;
    state_ = State::kWanted;
    given_back_ = given_back;
    return true;
  }

  // nullptr: refused.
  void Set(std::shared_ptr<const DeviceRows> rows) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    state_ = rows != nullptr ? State::kHere : State::kRefused;
    rows_ = std::move(rows);
  }

 private:
  mutable absl::Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kNone;
  const DeviceBudget* budget_ ABSL_GUARDED_BY(mu_) = nullptr;  // told apart, never looked into
  uint64_t given_back_ ABSL_GUARDED_BY(mu_) = 0;               // of the budget, when it was last asked
  std::shared_ptr<const DeviceRows> rows_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone::gpu
