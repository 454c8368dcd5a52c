// What became of each row of a segment: live, superseded by a newer generation's embedding, deleted, or first the one
// and then the other; and since when, each on its own, so that a view pinned before a change still sees what it saw.
//
// Threads: one writer (under the index's mutex), any number of readers without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/dcheck.h"
#include "index/rows/memory.h"

namespace lightcone {

inline constexpr uint32_t kLive = 0;
inline constexpr uint32_t kDeleted = UINT32_MAX;

class RowStates {
 public:
  RowStates() = default;

  // All rows live. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<RowStates> Make(size_t rows) {
    RowStates states;
    auto memory = Mapping::Zeroed(rows * (2 * sizeof(std::atomic<uint64_t>) + sizeof(std::atomic<uint32_t>)));
    if (!memory.ok()) return memory.status();
    states.memory_ = std::move(*memory);
    states.superseded_at_ = states.memory_.as<std::atomic<uint64_t>>();
    states.deleted_after_ = states.superseded_at_ + rows;
    states.superseded_by_ = reinterpret_cast<std::atomic<uint32_t>*>(states.deleted_after_ + rows);
    return states;
  }

  // Whether a view of `view_generation`, pinned at `view_sequence`, serves the row. What happened after the view was
  // pinned counts for nothing: the view does not see the row that took this one's place either.
  bool Visible(size_t row, uint32_t view_generation, uint64_t view_sequence) const {
    const uint64_t deleted = deleted_after_[row].load(std::memory_order_acquire);
    if (deleted != 0 && deleted - 1 <= view_sequence) return false;
    const uint32_t by = superseded_by_[row].load(std::memory_order_acquire);
    if (by == kLive || by > view_generation) return true;
    return superseded_at_[row].load(std::memory_order_relaxed) > view_sequence;
  }

  // As of now: kLive, kDeleted, or the generation that superseded the row.
  uint32_t Get(size_t row) const {
    return deleted_after_[row].load(std::memory_order_relaxed) != 0 ? kDeleted : SupersededBy(row);
  }

  // Also of a deleted row: what it was before. kLive: not superseded.
  uint32_t SupersededBy(size_t row) const { return superseded_by_[row].load(std::memory_order_relaxed); }
  uint64_t SupersededAt(size_t row) const { return superseded_at_[row].load(std::memory_order_relaxed); }
  // REQUIRES: the row is deleted.
  uint64_t DeletedAt(size_t row) const {
    LC_DCHECK(Get(row) == kDeleted);
    return deleted_after_[row].load(std::memory_order_relaxed) - 1;
  }

  // REQUIRES: the row is not deleted. The sequence is stored first: a reader that sees the new state sees at least this
  // sequence.
  void Set(size_t row, uint32_t state, uint64_t sequence) {
    if (state == kDeleted) {
      deleted_after_[row].store(sequence + 1, std::memory_order_release);
      return;
    }
    superseded_at_[row].store(sequence, std::memory_order_relaxed);
    superseded_by_[row].store(state, std::memory_order_release);
  }

 private:
  static_assert(sizeof(std::atomic<uint64_t>) == 8 && sizeof(std::atomic<uint32_t>) == 4,
                "zeroed pages are valid atomics");

  Mapping memory_;
  std::atomic<uint64_t>* superseded_at_ = nullptr;
  std::atomic<uint64_t>* deleted_after_ = nullptr;  // the sequence + 1; 0: not deleted
  std::atomic<uint32_t>* superseded_by_ = nullptr;
};

}  // namespace lightcone
