// Drops a generation: rows that it superseded get the states that they have without it.
//
// These states are looked up in advance, some rows at a time, while writes and builds go on.
// Threads: one caller of Prepare and Drop at a time, beside everything else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "index/life/index_state.h"

namespace lightcone {

class GenerationDrop {
 public:
  explicit GenerationDrop(IndexState& state) : state_(state) {}

  // CollectionIndex::PrepareDrop.
  absl::Status Prepare(uint32_t generation, const std::function<bool()>& cancelled) ABSL_LOCKS_EXCLUDED(state_.mu);
  // CollectionIndex::DropGeneration.
  absl::Status Drop(uint32_t generation) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Notes that a generation got a row of this item: what was looked up for the item may be wrong now. Asserts the lock.
  void RecordWrite(uint32_t generation, uint64_t internal_id);

 private:
  // The generation that leaves.
  struct Leaving {
    struct Assessed {
      int64_t rows = 0;                                   // rows that were looked at
      std::vector<std::pair<uint32_t, uint32_t>> states;  // row, and its state without the generation
    };
    uint32_t generation = 0;
    std::map<uint64_t, Assessed> segments;  // by id: a segment that a build installs is looked at anew
    absl::flat_hash_set<uint64_t> written;  // items that this generation or a newer one embedded meanwhile
  };

  // Looks at some more rows. False when it has seen all.
  bool AssessSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  bool AssessSegment(uint32_t number, const Segment& segment, int64_t& rows_left)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void ApplyAssessed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  IndexState& state_;
  std::optional<Leaving> leaving_ ABSL_GUARDED_BY(state_.mu);
};

}  // namespace lightcone
