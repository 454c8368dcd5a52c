// Looks for damage of sealed files: reads them through after a start, and looks at those that serve.
// Threads: safe from any, but one call of CheckForFlush at a time.
#pragma once

#include <cstddef>
#include <cstdint>
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

  // Reads the next segment that was not read since the start, at the pace of checks. Returns how long the next call may
  // wait; infinite when no segment is left.
  absl::Duration CheckNext() ABSL_LOCKS_EXCLUDED(state_.mu);
  // The same for a flush: without that pace, and for about `longest`. The next call goes on there, so that seals and
  // repairs have their turn.
  absl::Duration CheckForFlush(absl::Duration longest) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Reads a source of a rewrite through and marks it if it is damaged. Where files cannot be read now, tries again
  // until they can. CANCELLED when `stop` says so.
  absl::Status CheckSource(const SealedSegment& segment, absl::FunctionRef<bool()> stop) ABSL_LOCKS_EXCLUDED(state_.mu);
  // Marks segments whose files were removed, replaced or cut.
  void LookAtFiles() ABSL_LOCKS_EXCLUDED(state_.mu);
  // Whether a segment is marked whose repair has not begun. Asserts the lock.
  bool AnyDamaged() const;

 private:
  absl::Duration CheckNewest() ABSL_LOCKS_EXCLUDED(state_.mu);
  // Marks the segment if its files are damaged. CANCELLED when `go_on` says no; other errors say that the files cannot
  // be read now, and nothing about the segment.
  absl::Status Check(const SealedSegment& segment, SealedSegment::CheckedUpTo& so_far,
                     absl::FunctionRef<bool(size_t bytes)> go_on) ABSL_LOCKS_EXCLUDED(state_.mu);
  // What CheckNext returns after a check that ended so.
  absl::Duration Record(const std::shared_ptr<SealedSegment>& segment, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(state_.mu);

  IndexState& state_;
  uint64_t flush_segment_ = 0;                  // the one that CheckForFlush reads
  SealedSegment::CheckedUpTo flush_read_ = {};  // how far it has
};

}  // namespace lightcone
