// Applies changes of the store to the rows of an index.
// Threads: see the methods; Apply and AddGeneration come from one writer at a time.
#pragma once

#include <cstdint>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "index/life/generation_drop.h"
#include "index/life/index_state.h"

namespace lightcone {

class RowWriter {
 public:
  RowWriter(IndexState& state, GenerationDrop& drop) : state_(state), drop_(drop) {}

  // As CollectionIndex.
  absl::Status AddGeneration(uint32_t generation, const Space& space) ABSL_LOCKS_EXCLUDED(state_.mu);
  absl::Status Apply(uint64_t sequence, std::span<const RowChange> changes) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Adds a row that the store has, unless a segment has it or it was deleted since. NOT_FOUND when its generation was
  // dropped. Asserts the lock.
  absl::Status AppendRecovered(const RowChange& change);

 private:
  absl::Status CheckChanges(uint64_t sequence, std::span<const RowChange> changes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  absl::Status ApplyAdd(uint64_t sequence, const RowChange& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void ApplyDelete(uint64_t sequence, uint64_t internal_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Generation `by` supersedes the row of this item in an older generation, if it has one.
  void Supersede(GenerationRows& older, uint64_t internal_id, uint32_t by, uint64_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  absl::Status AppendRow(GenerationRows& generation, const RowChange& change, uint64_t sequence, bool recovered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Freezes active segments whose rows keep the change log from being trimmed while other generations get the writes.
  void FreezeLaggards() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  IndexState& state_;
  GenerationDrop& drop_;
};

// INVALID_ARGUMENT unless rows of a generation can have this number.
absl::Status CheckGenerationNumber(uint32_t generation);

}  // namespace lightcone
