// Takes the rows of damaged segments from the store again, beside searches and writes.
// Threads: one at a time, beside everything else: the builder, and before it Load.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/life/file_checks.h"
#include "index/life/index_state.h"
#include "index/life/row_writer.h"
#include "index/life/sealer.h"

namespace lightcone {

class Repair {
 public:
  Repair(IndexState& state, const FileChecks& checks, RowWriter& writer, Sealer& sealer)
      : state_(state), checks_(checks), writer_(writer), sealer_(sealer) {}

  // Repairs the generations that have marked segments. Leaves out those in `unmended`, and adds those that fail. False:
  // repairs of other indexes have all the threads that are there for them, and the caller comes back later.
  absl::StatusOr<bool> MendDamage(std::map<uint32_t, absl::Status>* unmended) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Puts rows of a generation that the store has and no segment does into growing segments. NOT_FOUND when the
  // generation is dropped meanwhile.
  absl::Status Recover(uint32_t number) ABSL_LOCKS_EXCLUDED(state_.mu);

 private:
  class Batches;

  // Takes marked segments out of service. Returns the generations to repair.
  std::vector<uint32_t> BeginRepairs(const std::map<uint32_t, absl::Status>& unmended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Recover, and lets go of the damaged segments.
  absl::Status MendGeneration(uint32_t number) ABSL_LOCKS_EXCLUDED(state_.mu);

  IndexState& state_;
  const FileChecks& checks_;
  RowWriter& writer_;
  Sealer& sealer_;
};

}  // namespace lightcone
