// Seals full growing segments, one job at a time.
// Threads: one at a time, beside everything else: the builder, and before it Load.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "index/life/index_state.h"
#include "index/life/segment_builds.h"
#include "index/life/write_load.h"

namespace lightcone {

class Sealer {
 public:
  Sealer(IndexState& state, SegmentBuilds& builds, WriteLoad& load) : state_(state), builds_(builds), load_(load) {}

  // The next job, which has begun then; generations take turns. Asserts the lock.
  std::optional<BuildJob> BeginNext();
  // Builds and installs the segment, and writes a checkpoint.
  absl::Status Seal(const BuildJob& job) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Seals the generation's full growing segments when it has more than a few.
  absl::Status SealMany(uint32_t number) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Seals a few segments of one generation that has more.
  absl::Status SealOfAny() ABSL_LOCKS_EXCLUDED(state_.mu);

 private:
  std::optional<BuildJob> BeginFor(uint32_t number, GenerationRows& generation, int64_t rows_max = INT64_MAX)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  IndexState& state_;
  SegmentBuilds& builds_;
  WriteLoad& load_;
  uint32_t turn_ ABSL_GUARDED_BY(state_.mu) = 0;  // generation of the last job
};

}  // namespace lightcone
