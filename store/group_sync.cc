#include "store/group_sync.h"

#include <algorithm>

namespace lightcone {

absl::Status GroupSync::Commit() {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  const uint64_t ticket = ++arrived_;
  const uint64_t failures = failures_;
  while (synced_ < ticket) {
    if (failures_ != failures) return last_failure_;
    if (syncing_) {
      changed_.Wait(&mutex_);
      continue;
    }
    syncing_ = true;
    const uint64_t covered = arrived_;
    mutex_.Unlock();
    const absl::Status synced = sync_();
    mutex_.Lock();
    syncing_ = false;
    ++syncs_;
    if (!synced.ok() && failure_.ok()) failure_ = synced;
    if (!synced.ok()) {
      ++failures_;
      last_failure_ = failure_;
    } else if (failures_ == failures) {
      synced_ = std::max(synced_, covered);
    }
    changed_.SignalAll();
  }
  return absl::OkStatus();
}

void GroupSync::Fail(const absl::Status& failure) {
  absl::MutexLock lock(&mutex_);
  if (failure_.ok() || absl::IsResourceExhausted(failure_)) failure_ = failure;
  last_failure_ = failure_;
  ++failures_;
  changed_.SignalAll();
}

void GroupSync::Clear() {
  absl::MutexLock lock(&mutex_);
  failure_ = absl::OkStatus();
}

absl::Status GroupSync::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

uint64_t GroupSync::syncs() const {
  absl::MutexLock lock(&mutex_);
  return syncs_;
}

}  // namespace lightcone
