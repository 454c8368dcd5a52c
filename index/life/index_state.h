// What the parts of an index share: the segments of each generation, and how far changes, builds and checkpoints got.
//
// On disk:
//   FOLDER/index.json       the checkpoint (manifest.h): names the segments that count
//   FOLDER/segments/ID/     sealed segments
// Threads: `mu` guards what is mutable. No file is written and no store is read while it is held, but in Load.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/work_pool.h"
#include "index/api/collection_index.h"
#include "index/build/build_plan.h"
#include "index/build/kind_choice.h"
#include "index/build/sealed_segment.h"
#include "index/life/view.h"
#include "index/rows/growing_segment.h"

namespace lightcone {

// A row of one segment.
struct RowPlace {
  Segment* segment = nullptr;
  int64_t row = 0;
};

// The segments of one generation.
struct GenerationRows {
  Space space;
  std::vector<std::shared_ptr<SealedSegment>> sealed;
  std::vector<std::shared_ptr<GrowingSegment>> frozen;  // full or flushed, oldest first: they wait to be sealed
  std::shared_ptr<GrowingSegment> active;               // takes new rows; null until the first one
  // Sealed segments that were found damaged. Views keep them, so that searches report the damage, until the store has
  // given their rows back. No other code reads them.
  std::vector<std::shared_ptr<SealedSegment>> damaged;
  absl::flat_hash_set<uint64_t> gone;  // ids that were deleted since `damaged` got its first segment
  uint64_t floor = 0;                  // changes up to here were in files at the start: Apply leaves them out
  uint64_t persisted = 0;              // changes up to here are in files now
  bool recovering = false;             // since Load: the store has rows that no segment has yet
  int64_t active_since = 0;            // IndexState::changes_applied when `active` got its first row
  bool touched = true;                 // since the last view

  // Calls visit(segment) for each segment that is not known as damaged, newest rows first, until one call returns true.
  template <typename Visit>
  bool AnySegment(const Visit& visit) const {
    const auto each = [&visit](const auto& segment) { return visit(*segment); };
    return (active != nullptr && visit(*active)) || std::any_of(frozen.begin(), frozen.end(), each) ||
           std::any_of(sealed.begin(), sealed.end(), each);
  }
  std::optional<RowPlace> Find(uint64_t internal_id) const;
  int64_t FrozenRows() const;
  int64_t FrozenBytes() const;
};

// Builds and their last errors; each error is OK once the same work succeeded.
struct BuildFigures {
  int64_t running = 0, total = 0;
  int64_t rebuilt = 0;         // damaged segments
  absl::Status sealing_error;  // of seals and checkpoints
  absl::Status mending_error;  // of damage that stays
};

// Flushes that callers wait for, by ticket. The builder works on all that were asked for together.
struct FlushState {
  uint64_t asked = 0, done = 0;  // newest tickets
  absl::Status error;            // answer of the last flush
  // The flushes that the builder works on.
  struct Current {
    uint64_t ticket = 0;
    uint64_t sequence = 0;              // newest change that they wait for
    uint64_t next_id = 0;               // next segment id when the builder took them
    bool written = false;               // whether a checkpoint followed the last installed segment
    std::optional<RewriteKind> failed;  // kind of a rewrite that failed since
  };
  Current current;

  bool pending() const { return asked != done; }
  bool taken() const { return current.ticket != done; }
};

// How the index calls its builder.
struct BuilderCall {
  RecurringWork* work = nullptr;  // null before the builder starts and after it stopped
  bool due = false;               // whether something came since the builder last began
};

struct IndexState {
  IndexState(std::string index_folder, const IndexSettings& index_settings, RowSource* row_source,
             const IndexLimits& index_limits)
      : folder(std::move(index_folder)), source(row_source), limits(index_limits), settings(index_settings) {}

  void Freeze(GenerationRows& generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void SetState(GenerationRows& generation, const RowPlace& place, uint32_t state, uint64_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The least generation above `generation`, `except` left out, that has a row of this item; else kLive.
  uint32_t SupersededBy(uint32_t generation, uint64_t internal_id, uint32_t except = 0) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  int64_t AllRows() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  int64_t UnsealedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Whether so many rows wait to be sealed that writes wait for the builder.
  bool Crowded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return limits.unsealed_bytes_max > 0 && UnsealedBytes() >= limits.unsealed_bytes_max;
  }
  // Rows at which a growing segment is full.
  int64_t GrowingRowsMax(const Space& space) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  std::optional<CodeKind> CodesOfGrowing(const Space& space) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // What the settings make of a segment of `rows` rows, which is `now` at present (null: not sealed yet).
  KindChoice ChoiceOf(const Space& space, int64_t rows, const SealedSegment* now, int64_t all_rows) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Gives searches a view of all segments as they are.
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Tells the builder that there is work.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Lets the builder look whether what it waits for has happened.
  void Nudge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (builder.work != nullptr) builder.work->Wake();
  }
  std::string SegmentFolder(uint64_t id) const;
  bool stopping() const { return stop.load(std::memory_order_relaxed); }

  // One job that builds a graph or lists seals at most this share of `unsealed_bytes_max`, and no growing segment gets
  // larger, except for a thousand rows. So memory comes back step by step, and waiting writes do not wait for minutes.
  static constexpr int64_t kSealedShare = 16;

  const std::string folder;
  RowSource* const source;
  const IndexLimits limits;
  PublishedView view;
  std::atomic<bool> stop{false};
  std::atomic<bool> crowded{false};  // Crowded() as of the last Publish: a writer reads it without the lock

  mutable absl::Mutex mu;
  IndexSettings settings ABSL_GUARDED_BY(mu);
  int64_t rebuilds_asked ABSL_GUARDED_BY(mu) = 0;
  std::map<uint32_t, GenerationRows> generations ABSL_GUARDED_BY(mu);
  uint64_t applied ABSL_GUARDED_BY(mu) = 0;          // sequence of the last change
  uint64_t newest_in_files ABSL_GUARDED_BY(mu) = 0;  // sequence of the newest change that files held at Load
  int64_t changes_applied ABSL_GUARDED_BY(mu) = 0;   // rows added and deleted since the start
  absl::Time last_apply ABSL_GUARDED_BY(mu) = absl::InfinitePast();
  uint64_t next_segment_id ABSL_GUARDED_BY(mu) = 1;
  std::vector<std::string> garbage ABSL_GUARDED_BY(mu);  // folders to delete after the next checkpoint
  int64_t state_changes ABSL_GUARDED_BY(mu) = 0;         // changed states of sealed rows since the last checkpoint
  bool checkpoint_due ABSL_GUARDED_BY(mu) = false;
  BuilderCall builder ABSL_GUARDED_BY(mu);
  std::vector<std::shared_ptr<SealedSegment>> unchecked ABSL_GUARDED_BY(mu);  // not read through since the start
  BuildFigures builds ABSL_GUARDED_BY(mu);
  FlushState flush ABSL_GUARDED_BY(mu);
  absl::CondVar flushed;
  absl::CondVar room;  // signalled when rows were sealed or could not be
};

}  // namespace lightcone
