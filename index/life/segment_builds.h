// One build: writes a sealed segment from the rows of others and installs it in their place.
// Threads: builds of different sources run beside each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "index/build/segment_writer.h"
#include "index/life/file_checks.h"
#include "index/life/index_state.h"

namespace lightcone {

struct BuildJob {
  uint32_t generation = 0;
  SegmentPlan plan;
  std::vector<std::shared_ptr<Segment>> sources;
  std::vector<int64_t> rows_of;                                // rows of each source when the job began
  int64_t rebuild = 0;                                         // IndexState::rebuilds_asked when the job began
  std::vector<std::shared_ptr<SealedSegment>> sealed_sources;  // the sources of a rewrite
};

struct BuiltSegment {
  absl::Status status;
  std::vector<RowReference> rows;
  std::shared_ptr<SealedSegment> segment;  // null: no row of the sources lives, or an error
};

class SegmentBuilds {
 public:
  SegmentBuilds(IndexState& state, FileChecks& checks) : state_(state), checks_(checks) {}

  // Plans a segment of `live` rows of the sources; both sequences of the plan are known. Asserts the lock.
  BuildJob Begin(uint32_t number, const Space& space, int64_t live, SegmentPlan plan,
                 std::vector<std::shared_ptr<Segment>> sources);
  // The first job that `begin` has for a generation. Generations take turns after `turn`, so that one that always has
  // something to do does not keep the others from theirs. Asserts the lock.
  std::optional<BuildJob> BeginInTurn(uint32_t& turn,
                                      absl::FunctionRef<std::optional<BuildJob>(uint32_t, GenerationRows&)> begin);
  // Writes the files; Finish follows. `unwanted` ends the build early; null: only the end of the index does.
  BuiltSegment Build(const BuildJob& job, const std::atomic<bool>* unwanted) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Installs what was built, or says why not. Asserts the lock.
  absl::Status Finish(const BuildJob& job, BuiltSegment built);

 private:
  void Install(const BuildJob& job, const std::vector<RowReference>& rows, std::shared_ptr<SealedSegment> built)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  IndexState& state_;
  FileChecks& checks_;
};

}  // namespace lightcone
