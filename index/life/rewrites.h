// Rewrites of sealed segments: rebuilds, graphs for provisional segments, compactions, merges.
//
// One runs at a time, beside the builder, because it may take minutes, in which rows that are not sealed would be
// scanned by every search. The builder asks for it and installs its result. It may wait for a thread behind rewrites
// of other indexes: what it does is picked anew once the thread is there.
// Threads: Start and Finish are the builder's; everything else is safe from any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/work_pool.h"
#include "index/life/index_state.h"
#include "index/life/segment_builds.h"
#include "index/life/write_load.h"

namespace lightcone {

// How long after a failure the next try comes, from the last such wait: twice as long, within 1 s and 60 s.
absl::Duration NextRetry(absl::Duration last);

class Rewrites {
 public:
  Rewrites(IndexState& state, SegmentBuilds& builds, WriteLoad& load) : state_(state), builds_(builds), load_(load) {}

  // Builds run in this pool from now on. Close waits for the running build.
  void Open(std::shared_ptr<WorkPool> pool);
  void Close() { work_.reset(); }

  // Asks for a thread if a rewrite is due and none waits or runs.
  void Start() ABSL_LOCKS_EXCLUDED(state_.mu);
  // Installs the result of the rewrite if its build is done.
  void Finish() ABSL_LOCKS_EXCLUDED(state_.mu);
  // Stops the build for a generation that has been dropped, or forgets it if it has not begun.
  void Cancel(uint32_t generation) ABSL_LOCKS_EXCLUDED(state_.mu);

  // These assert the lock.
  bool IsUnderWay() const;  // Whether one waits for its thread, runs, or is done.
  bool IsDone() const;
  // Whether the rewrite that is under way has a source that was there before the flush and rows that the flush waits
  // for.
  bool WorksForFlush() const;
  // Whether the segment is to be rewritten, and a flush waits for that: not for merges.
  bool IsAwaited(const SealedSegment& segment, int64_t all_rows) const;
  // Time until a rewrite that failed is tried again, while none is under way; infinite without one.
  absl::Duration NextTry() const;
  void RetryNow();
  absl::Status LastError() const;
  absl::Status LastError(RewriteKind kind) const;

 private:
  struct Rewrite {
    RewriteKind kind = RewriteKind::kMerge;
    std::chrono::steady_clock::time_point begun = {};
    BuildJob job;
    uint32_t turn_before = 0;            // generation of the last rewrite before this one
    uint64_t flush = 0;                  // ticket of the current flush when the rewrite began
    std::atomic<bool> unwanted = false;  // its generation has been dropped
    bool building = false;               // since it has a thread
    BuiltSegment built;
    bool done = false;
  };
  // The last rewrite of a kind. One that fails (a merge for which the disk has no room) keeps no other kind waiting.
  struct Trial {
    absl::Status error;
    absl::Duration retry = absl::ZeroDuration();
    std::chrono::steady_clock::time_point next = {};  // earliest begin of the next rewrite
  };

  std::unique_ptr<Rewrite> PickNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  std::vector<size_t> PlanFor(RewriteKind kind, const GenerationRows& generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  std::optional<BuildJob> BeginFor(RewriteKind kind, uint32_t number, GenerationRows& generation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  bool IsToBeMended(const SealedSegment& segment) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // `for_flush`: without what no flush waits for.
  BuildInput InputOf(const SealedSegment& segment, int64_t all_rows, bool for_flush) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Builds a rewrite in the calling thread, if one waits for it.
  void BuildQueued() ABSL_LOCKS_EXCLUDED(state_.mu);
  // The most urgent rewrite by now, in place of the one that waits; null when none is due any more.
  Rewrite* PickAnew() ABSL_LOCKS_EXCLUDED(state_.mu);

  IndexState& state_;
  SegmentBuilds& builds_;
  WriteLoad& load_;
  std::unique_ptr<RecurringWork> work_;
  std::unique_ptr<Rewrite> rewrite_ ABSL_GUARDED_BY(state_.mu);  // the one under way
  std::array<Trial, kRewriteKinds> trials_ ABSL_GUARDED_BY(state_.mu);
  uint32_t turn_ ABSL_GUARDED_BY(state_.mu) = 0;  // generation of the last rewrite
  // By how much rewrites of provisional segments took longer than compactions and merges while both were wanted.
  std::chrono::steady_clock::duration finish_lead_ ABSL_GUARDED_BY(state_.mu) = {};
};

}  // namespace lightcone
