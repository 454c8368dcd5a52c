// Looks for damage of sealed files: reads them through after a start, and looks at those that serve.
// Threads: safe from any.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "index/life/index_state.h"

namespace lightcone {

class FileChecks {
 public:
  explicit FileChecks(IndexState& state) : state_(state) {}

  // Reads the next segment that was not read since the start. `hurry`: for a flush, without the pace of checks, and
  // until writes wait. Returns how long the next call may wait; infinite when no segment is left.
  absl::Duration CheckNext(bool hurry) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Reads the segment's files through and marks the segment if they are damaged. CANCELLED when `stop` says so; other
  // errors say that the files cannot be read now, and nothing about the segment.
  absl::Status Check(const SealedSegment& segment, bool hurry, absl::FunctionRef<bool()> stop)
      ABSL_LOCKS_EXCLUDED(state_.mu);
  // Marks segments whose files were removed, replaced or cut.
  void LookAtFiles() ABSL_LOCKS_EXCLUDED(state_.mu);
  // Whether a segment is marked whose repair has not begun. Asserts the lock.
  bool AnyDamaged() const;

 private:
  IndexState& state_;
};

}  // namespace lightcone
