// What became of each row of a segment: live, superseded by a newer generation's embedding, or deleted; and since when,
// so that a view pinned before a change still sees the row.
//
// Threads: one writer (under the index's mutex), any number of readers without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "index/memory.h"

namespace lightcone {

inline constexpr uint32_t kLive = 0;
inline constexpr uint32_t kDeleted = UINT32_MAX;

class RowStates {
 public:
  RowStates() = default;

  // All rows live. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<RowStates> Make(size_t rows) {
    RowStates states;
    auto memory = Mapping::Zeroed(rows * (sizeof(std::atomic<uint64_t>) + sizeof(std::atomic<uint32_t>)));
    if (!memory.ok()) return memory.status();
    states.memory_ = std::move(*memory);
    states.changed_at_ = states.memory_.as<std::atomic<uint64_t>>();
    states.state_ = reinterpret_cast<std::atomic<uint32_t>*>(states.changed_at_ + rows);
    return states;
  }

  // Whether a view of `view_generation`, pinned at `view_sequence`, serves the row. A row that changed after the view
  // was pinned counts as live: the view does not see the row that took its place either.
  bool Visible(size_t row, uint32_t view_generation, uint64_t view_sequence) const {
    const uint32_t state = state_[row].load(std::memory_order_acquire);
    if (state == kLive || (state != kDeleted && state > view_generation)) return true;
    return changed_at_[row].load(std::memory_order_relaxed) > view_sequence;
  }

  uint32_t Get(size_t row) const { return state_[row].load(std::memory_order_relaxed); }
  uint64_t ChangedAt(size_t row) const { return changed_at_[row].load(std::memory_order_relaxed); }

  // The sequence is stored first: a reader that sees the new state sees at least this sequence.
  void Set(size_t row, uint32_t state, uint64_t sequence) {
    changed_at_[row].store(sequence, std::memory_order_relaxed);
    state_[row].store(state, std::memory_order_release);
  }

 private:
  static_assert(sizeof(std::atomic<uint64_t>) == 8 && sizeof(std::atomic<uint32_t>) == 4,
                "zeroed pages are valid atomics");

  Mapping memory_;
  std::atomic<uint64_t>* changed_at_ = nullptr;
  std::atomic<uint32_t>* state_ = nullptr;
};

}  // namespace lightcone
