// The background builder of an index: seals, mends damage, writes checkpoints, and answers flushes.
//
// It works in steps on a thread that all indexes of the process share. A step seals one segment, or checks files
// for a moment, or writes one checkpoint; then other indexes have their turn. A repair is one long step.
// Threads: one step at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "index/life/file_checks.h"
#include "index/life/flushes.h"
#include "index/life/index_state.h"
#include "index/life/repair.h"
#include "index/life/rewrites.h"
#include "index/life/sealer.h"
#include "index/life/write_load.h"

namespace lightcone {

class Builder {
 public:
  Builder(IndexState& state, RowWriter& writer) : state_(state), writer_(writer) {}

  // Does a piece of work. Returns how long the next step may wait, if IndexState::Nudge does not ask for it.
  absl::Duration Step();

  FileChecks& checks() { return checks_; }
  Flushes& flushes() { return flushes_; }
  Repair& repair() { return repair_; }
  Rewrites& rewrites() { return rewrites_; }
  const Rewrites& rewrites() const { return rewrites_; }

 private:
  static constexpr absl::Duration kLookAtFilesEvery = absl::Seconds(5);  // files that no search reads, too
  enum class Phase {
    kIdle,   // nothing is due, or the next try waits
    kBurst,  // work is due, and waits for the end of a burst of writes
    kWork,   // pieces of work follow each other until none is left
  };

  // How long nothing is due; zero: the builder begins.
  absl::Duration IdleLeft() ABSL_LOCKS_EXCLUDED(state_.mu);
  absl::Duration BurstLeft() ABSL_LOCKS_EXCLUDED(state_.mu);
  void BeginWork() ABSL_LOCKS_EXCLUDED(state_.mu);
  // One piece. Nothing: no work is left. Else how long the next piece may wait.
  absl::StatusOr<std::optional<absl::Duration>> WorkOnce() ABSL_LOCKS_EXCLUDED(state_.mu);
  // Looks at all files before a flush is taken that was asked for since the last look.
  void LookAtFilesForFlush() ABSL_LOCKS_EXCLUDED(state_.mu);
  std::optional<BuildJob> BeginSeal() ABSL_LOCKS_EXCLUDED(state_.mu);
  // After a provisional seal: whether what is left may wait for the end of the burst.
  bool MayWaitForBurst() ABSL_LOCKS_EXCLUDED(state_.mu);
  // Ends the work with the error at which it stopped, and answers flushes.
  void EndWork(absl::Status status) ABSL_LOCKS_EXCLUDED(state_.mu);

  IndexState& state_;
  RowWriter& writer_;
  FileChecks checks_{state_};
  WriteLoad load_{state_};
  SegmentBuilds builds_{state_, checks_};
  Sealer sealer_{state_, builds_, load_};
  Rewrites rewrites_{state_, builds_, load_};
  Repair repair_{state_, checks_, writer_, sealer_};
  Flushes flushes_{state_, checks_, rewrites_};

  // Only steps use these.
  Phase phase_ = Phase::kIdle;
  absl::Time idle_until_ = absl::Now() + kLookAtFilesEvery, burst_until_;
  absl::Duration retry_ = absl::ZeroDuration();  // wait after a failure; zero: the last work succeeded
  uint64_t looked_ = 0;                          // ticket of the newest flush before which files were looked at
  std::map<uint32_t, absl::Status> failed_;      // generations whose damage stays; the others are worked on
};

}  // namespace lightcone
