// Flushes: callers wait until the builder has done all that was due when they called.
// Threads: Await is safe from any thread. The other methods are the builder's, and assert the index's lock.
#pragma once

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "index/life/file_checks.h"
#include "index/life/index_state.h"
#include "index/life/rewrites.h"
#include "index/life/segment_builds.h"

namespace lightcone {

class Flushes {
 public:
  Flushes(IndexState& state, const FileChecks& checks, Rewrites& rewrites)
      : state_(state), checks_(checks), rewrites_(rewrites) {}

  // CollectionIndex::Flush.
  absl::Status Await(absl::Time deadline, const std::function<bool()>& cancelled) ABSL_LOCKS_EXCLUDED(state_.mu);

  // Takes the flushes that were asked for until now, if there are any.
  void Take();
  // Answers the flushes that were taken.
  void Answer(const absl::Status& status);
  // Answers them early when nothing that they asked for is left: `seal` (null: none) and a rewrite keep the builder
  // busy with younger rows only. Where writes never pause, neither does the work. `unmended`: damage that stays.
  void AnswerIfSettled(const BuildJob* seal, const absl::Status& unmended);

 private:
  bool OnlyYoungerWork(const BuildJob* seal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  bool IsSettled(const BuildJob* seal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  bool IsSettled(const GenerationRows& generation, int64_t all_rows) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The error of a rewrite that the current flush waits for.
  absl::Status Failure() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  IndexState& state_;
  const FileChecks& checks_;
  Rewrites& rewrites_;
};

}  // namespace lightcone
