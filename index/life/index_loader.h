// Reads an index's folder at the start.
//
// For each generation the checkpoint has a sequence up to which files hold every change. The caller replays the changes
// after the least of them.
// Threads: one at a time, before searches, writes and builds begin.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/life/index_state.h"
#include "index/rows/manifest.h"

namespace lightcone {

class IndexLoader {
 public:
  explicit IndexLoader(IndexState& state) : state_(state) {}

  // Opens the segments that count and removes the others. Returns the generations of which files lack rows.
  absl::StatusOr<std::vector<uint32_t>> Load(const std::vector<std::pair<uint32_t, Space>>& generations)
      ABSL_LOCKS_EXCLUDED(state_.mu);

 private:
  absl::StatusOr<IndexCheckpoint> ReadCheckpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Whether files hold all rows of the generation.
  absl::StatusOr<bool> LoadGeneration(uint32_t number, GenerationRows& generation,
                                      const IndexCheckpoint::Generation& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // RESOURCE_EXHAUSTED where searches would need more memory than the limit.
  absl::Status CheckMemory() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  absl::Status RemoveLeftovers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Finds states of rows anew that a generation superseded which is no more.
  void ReassessSuperseded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  IndexState& state_;
};

}  // namespace lightcone
