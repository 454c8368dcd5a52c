// The implementation of CollectionIndex: one writer, one background builder, views swapped atomically; and, after a
// start, a thread that reads the sealed files through.
//
// The builder seals what writes bring. Sealed segments are rewritten (merged, compacted, built anew) by a thread of
// their own, one rewrite at a time: one may take minutes, in which rows that are not sealed would be scanned by every
// search. The builder starts it, puts its result in place, and alone writes checkpoints and mends damage.
//
// Everything mutable is guarded by mu_; files are written outside of it. What is on disk:
//   FOLDER/index.json       the checkpoint (manifest.h): names the segments that count
//   FOLDER/segments/ID/     sealed segments
// The checkpoint is the commit point: a segment that it does not list is a leftover and goes at the next start; one
// that it lists and that cannot be read is rebuilt from the store.
//
// Replay: for each generation the checkpoint has a sequence up to which files hold every change. State files may be
// newer, never older; replaying what they hold already changes nothing, because a row's state only moves from live to
// superseded to deleted.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "index/api/collection_index.h"
#include "index/build/build_plan.h"
#include "index/build/kind_choice.h"
#include "index/build/sealed_segment.h"
#include "index/build/segment_writer.h"
#include "index/life/view.h"
#include "index/rows/growing_segment.h"
#include "index/rows/manifest.h"

namespace lightcone {

class SegmentIndex final : public CollectionIndex {
 public:
  SegmentIndex(std::string folder, const IndexSettings& settings, RowSource* source, const IndexLimits& limits);
  ~SegmentIndex() override;

  // Reads the folder; called once, before Start.
  absl::Status Load(const std::vector<std::pair<uint32_t, Space>>& generations) ABSL_LOCKS_EXCLUDED(mu_);
  void Start();

  uint64_t replay_after() const override { return replay_after_; }
  bool WantsRows(uint32_t generation, uint64_t sequence) const override ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t newest_sequence_in_files() const override { return loaded_newest_sequence_; }
  absl::Status AddGeneration(uint32_t generation, const Space& space) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status PrepareDrop(uint32_t generation, const std::function<bool()>& cancelled) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DropGeneration(uint32_t generation) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Apply(uint64_t sequence, std::span<const RowChange> changes) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<bool> AwaitRoom(absl::Time deadline) override ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<const IndexView> View() const override ABSL_LOCKS_EXCLUDED(view_mu_);
  absl::Status Flush(absl::Time deadline, const std::function<bool()>& cancelled) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Reconfigure(const IndexSettings& settings, bool rebuild_now) override ABSL_LOCKS_EXCLUDED(mu_);
  IndexStats Stats() const override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Generation {
    Space space;
    std::vector<std::shared_ptr<SealedSegment>> sealed;
    std::vector<std::shared_ptr<GrowingSegment>> frozen;  // full or flushed, oldest first: for the builder
    std::shared_ptr<GrowingSegment> active;               // takes new rows; null until one comes
    // Sealed ones that were found damaged. They stay in views, so that searches say so, until their rows have come from
    // the store again; nothing else looks at them. `gone`: ids that were deleted since that began.
    std::vector<std::shared_ptr<SealedSegment>> damaged;
    absl::flat_hash_set<uint64_t> gone;
    uint64_t floor = 0;        // changes up to here were in files at the start: Apply leaves them out
    uint64_t persisted = 0;    // changes up to here are in files now
    bool recovering = false;   // since Load: the store has rows that no segment has yet
    int64_t active_since = 0;  // changes_applied_ when `active` got its first row
    bool touched = true;       // since the last view
  };
  struct Place {
    Segment* segment = nullptr;
    int64_t row = 0;
  };
  // A generation that is being dropped: what the rows that it superseded become when it goes. They are looked up in
  // advance, some at a time, while writes and builds go on.
  struct Leaving {
    struct Assessed {
      int64_t rows = 0;                                   // looked at
      std::vector<std::pair<uint32_t, uint32_t>> states;  // row, and its state without the generation
    };
    uint32_t generation = 0;
    std::map<uint64_t, Assessed> segments;  // by id: one that a build puts in the place of others is looked at anew
    // Items that this generation or a newer one embedded meanwhile: what was found for their rows may not be true.
    absl::flat_hash_set<uint64_t> written;
  };
  struct Job {
    uint32_t generation = 0;
    SegmentPlan plan;
    std::vector<std::shared_ptr<Segment>> sources;
    std::vector<int64_t> rows_of;
    int64_t rebuild = 0;  // rebuilds_asked_ when it was planned
    std::vector<std::shared_ptr<SealedSegment>> sealed_sources;
  };
  struct Built {
    absl::Status status;
    std::vector<RowReference> rows;
    std::shared_ptr<SealedSegment> segment;  // null: no row of the sources lives, or an error
  };
  struct Rewrite {
    RewriteKind kind = RewriteKind::kMerge;
    std::chrono::steady_clock::time_point begun = {};
    Job job;
    uint64_t flush = 0;                  // ticket of the flush at hand when it began
    std::atomic<bool> unwanted = false;  // its generation has been dropped
    Built built;
    bool done = false;
  };
  // Of the last rewrite of a kind. One that fails (a merge for which the disk has no room) keeps nothing else waiting.
  struct Trial {
    absl::Status error;
    absl::Duration retry = absl::ZeroDuration();
    std::chrono::steady_clock::time_point next = {};  // none begins before
  };

  // Loading (segment_index_load.cc).
  absl::Status LoadCheckpoint(const IndexCheckpoint& checkpoint, std::vector<uint32_t>& incomplete)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status LoadFiles(const std::vector<std::pair<uint32_t, Space>>& generations, std::vector<uint32_t>& incomplete)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CheckMemory() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status RemoveLeftovers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReassessSuperseded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Writing (segment_index.cc).
  absl::Status CheckChanges(uint64_t sequence, std::span<const RowChange> changes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyAdd(uint64_t sequence, const RowChange& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ApplyDelete(uint64_t sequence, uint64_t internal_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The row of this item in an older generation, if it has one, is superseded by generation `by`.
  void Supersede(Generation& older, uint64_t internal_id, uint32_t by, uint64_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AppendRow(uint32_t number, Generation& generation, const RowChange& change, uint64_t sequence,
                         bool recovered) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Freeze(Generation& generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Freezes active segments whose rows keep the change log from being trimmed while others get the writes.
  void FreezeLaggards() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetState(Generation& generation, const Place& place, uint32_t state, uint64_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The least newer generation but `except` that has a row of this item, or kLive.
  uint32_t SupersededBy(uint32_t generation, uint64_t internal_id, uint32_t except = 0) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Looks at some more rows that `leaving_` superseded. False when it has seen all.
  bool AssessSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the rows that `leaving_` superseded their states without it. REQUIRES: it is no generation any more.
  void ApplyAssessed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static std::optional<Place> Find(const Generation& generation, uint64_t internal_id);
  int64_t AllRows() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t UnsealedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Crowded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return limits_.unsealed_bytes_max > 0 && UnsealedBytes() >= limits_.unsealed_bytes_max;
  }
  // What the settings make of a segment of `rows` rows, which is `now` now (null: not sealed yet).
  KindChoice ChoiceOf(const Space& space, int64_t rows, const SealedSegment* now, int64_t all_rows) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether it would be sealed as something else by now.
  bool Outgrown(const SealedSegment& segment, int64_t all_rows) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Building (segment_index_build.cc; segment_index_burst.cc: how it keeps up with writes).
  // Once this part of it waits in segments that are full, writes will wait soon: they are sealed provisionally, so much
  // in a job. So are rows that come faster than graphs are built, lest searches scan all of them.
  static constexpr int64_t kHurryShare = 4;
  // One job that builds a graph or lists seals at most this part of it, and no growing segment gets larger, but for a
  // thousand rows: memory comes back step by step, and writes that wait for it do not wait for minutes.
  static constexpr int64_t kSealedShare = 16;
  // Rows at which a growing segment is full.
  int64_t GrowingRowsMax(const Space& space) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<CodeKind> CodesOfGrowing(const Space& space) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BuilderLoop() ABSL_LOCKS_EXCLUDED(mu_);
  // False when the index is to stop. Waits no longer than `retry` unless that is zero.
  bool WaitForWork(absl::Duration retry) ABSL_LOCKS_EXCLUDED(mu_);
  // Begins with the flushes that were asked for until now, and ends them.
  void TakeFlush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AnswerFlush(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the flush at hand has all that it asked for, and only younger rows keep the builder busy, with this job
  // (null: none) and with a rewrite.
  bool FlushSettled(const Job* seal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Of builds and of mending, the last of each sort; OK when all succeeded.
  absl::Status LastError() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Why a rewrite that the flush at hand waits for fails.
  absl::Status FlushFailure() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status RewriteError() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool YoungerThanFlush(const Job* seal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether more rows wait to be sealed than a burst leaves.
  bool Behind() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits while writes keep coming, within bounds; not when a flush was asked for.
  void LetBurstPass() ABSL_LOCKS_EXCLUDED(mu_);
  // The error at which building ended. `unmended`: the first of a generation whose damage stays, beside which it went
  // on.
  absl::Status WorkUntilIdle(absl::Status* unmended) ABSL_LOCKS_EXCLUDED(mu_);
  BuildInput InputOf(const SealedSegment& segment, int64_t all_rows) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The first job that `job_of` has for a generation, by turns: one that always has something to do would keep all that
  // come after it from theirs.
  std::optional<Job> InTurn(uint32_t& turn, absl::FunctionRef<std::optional<Job>(uint32_t, Generation&)> job_of)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // After a provisional seal: whether what is left may wait for the end of the burst, at which the builder looks again.
  bool MayWaitForBurst() ABSL_LOCKS_EXCLUDED(mu_);
  // Whether rows of a generation, of which so many wait, are to be sealed provisionally: lest writes wait, or searches
  // scan ever more of them.
  bool HurryIsDue(int64_t rows) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether so much waits in full segments that writes will have to wait, too.
  bool FrozenCrowd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t ProvisionalBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For how long rows still count as coming faster than graphs are built; zero also where as much is provisional as may
  // be.
  absl::Duration LoadLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool LoadGoesOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What there is to seal, or to rewrite, of one generation. A job that is returned has begun.
  std::optional<Job> SealOf(uint32_t number, Generation& generation, int64_t rows_max = INT64_MAX)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Job> RewriteOf(RewriteKind kind, uint32_t number, Generation& generation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Job BeginJob(uint32_t number, const Space& space, int64_t live, SegmentPlan plan,
               std::vector<std::shared_ptr<Segment>> sources) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `unwanted`: beside the index's end, why it should stop; or null.
  Built Build(const Job& job, const std::atomic<bool>* unwanted = nullptr) ABSL_LOCKS_EXCLUDED(mu_);
  static bool Damaged(const Job& job);
  // Ends a job: puts what was built in the place of its sources, or says why not.
  absl::Status Finish(const Job& job, Built built) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Build and Finish, and a checkpoint.
  absl::Status Seal(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);
  // Begins a rewrite if there is one to do and none is being done.
  void StartRewrite() ABSL_LOCKS_EXCLUDED(mu_);
  std::unique_ptr<Rewrite> PickRewrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<size_t> PlanOf(RewriteKind kind, const Generation& generation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the rewrite if it is done.
  void FinishRewrite() ABSL_LOCKS_EXCLUDED(mu_);
  bool RewriteDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return rewrite_ != nullptr && rewrite_->done; }
  void Install(const Job& job, const std::vector<RowReference>& rows, std::shared_ptr<SealedSegment> built)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string SegmentFolder(uint64_t id) const;

  // The checkpoint (segment_index_checkpoint.cc).
  absl::Status WriteCheckpoint() ABSL_LOCKS_EXCLUDED(mu_);
  void CollectCheckpoint(IndexCheckpoint& checkpoint,
                         std::vector<std::pair<std::shared_ptr<SealedSegment>, std::vector<uint32_t>>>& states,
                         std::vector<std::string>& garbage) ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t SequenceInFiles(const Generation& generation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Damage (segment_index_damage.cc).
  void CheckerLoop() ABSL_LOCKS_EXCLUDED(mu_);
  // Reads the segment's files through and marks it if they are damaged. False when `stop` says so first.
  bool CheckSegment(const SealedSegment& segment, bool hurry, absl::FunctionRef<bool()> stop) ABSL_LOCKS_EXCLUDED(mu_);
  void LookAtFiles() ABSL_LOCKS_EXCLUDED(mu_);
  bool AnyDamaged() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the rows of segments that are marked from the store again. Leaves out the generations in `unmended`, and adds
  // those that fail.
  absl::Status MendDamage(std::map<uint32_t, absl::Status>* unmended) ABSL_LOCKS_EXCLUDED(mu_);
  // Rows of a generation that the store has and no segment does go into growing segments. NOT_FOUND when the generation
  // has been dropped meanwhile.
  absl::Status Recover(uint32_t generation) ABSL_LOCKS_EXCLUDED(mu_);
  // Seals the generation's full growing segments when there are more than a few. REQUIRES: no other thread seals.
  absl::Status SealRecovered(uint32_t number) ABSL_LOCKS_EXCLUDED(mu_);
  // Seals a few of one generation that has more. REQUIRES: no other thread seals.
  absl::Status SealOthers() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status AppendRecovered(uint32_t number, const RowChange& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

  const std::string folder_;
  RowSource* const source_;
  const IndexLimits limits_;
  uint64_t replay_after_ = 0;            // set by Load
  uint64_t loaded_newest_sequence_ = 0;  // set by Load

  mutable absl::Mutex mu_;
  IndexSettings settings_ ABSL_GUARDED_BY(mu_);
  int64_t rebuilds_asked_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint32_t, Generation> generations_ ABSL_GUARDED_BY(mu_);
  SegmentView::Legs legs_ ABSL_GUARDED_BY(mu_);
  uint64_t applied_ ABSL_GUARDED_BY(mu_) = 0;         // sequence of the last change
  int64_t changes_applied_ ABSL_GUARDED_BY(mu_) = 0;  // rows added and deleted, since the start
  absl::Time last_apply_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  std::optional<std::chrono::steady_clock::time_point> last_provisional_ ABSL_GUARDED_BY(mu_);  // end of such a seal
  std::optional<Leaving> leaving_ ABSL_GUARDED_BY(mu_);
  uint32_t seal_turn_ ABSL_GUARDED_BY(mu_) = 0, rewrite_turn_ ABSL_GUARDED_BY(mu_) = 0;  // generation of the last job
  std::unique_ptr<Rewrite> rewrite_ ABSL_GUARDED_BY(mu_);                                // at work, or done
  std::array<Trial, kRewriteKinds> trials_ ABSL_GUARDED_BY(mu_);
  // By how much rewrites of provisional segments took longer than compactions and merges, while both were wanted.
  std::chrono::steady_clock::duration finish_lead_ ABSL_GUARDED_BY(mu_) = {};
  uint64_t next_segment_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::vector<std::string> garbage_ ABSL_GUARDED_BY(mu_);  // folders to delete after the next checkpoint
  int64_t state_changes_ ABSL_GUARDED_BY(mu_) = 0;         // of sealed rows, since the last checkpoint
  bool checkpoint_due_ ABSL_GUARDED_BY(mu_) = false;
  bool work_due_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t flush_requested_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t flush_done_ ABSL_GUARDED_BY(mu_) = 0;
  // Those that the builder is at: up to this one, of changes up to `sequence`.
  struct Flushing {
    uint64_t ticket = 0, sequence = 0;
    uint64_t next_id = 0;               // of segments when it was taken
    bool written = false;               // a checkpoint, since it began and since the last segment was put in place
    std::optional<RewriteKind> failed;  // of a rewrite that began since
  };
  Flushing flushing_ ABSL_GUARDED_BY(mu_);
  int64_t builds_running_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t builds_total_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t rebuilds_total_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::shared_ptr<SealedSegment>> unchecked_ ABSL_GUARDED_BY(mu_);  // since the start
  absl::Status flush_error_ ABSL_GUARDED_BY(mu_);                               // of the last flush
  absl::Status sealing_error_ ABSL_GUARDED_BY(mu_);                             // of the last seal or checkpoint
  absl::Status mending_error_ ABSL_GUARDED_BY(mu_);                             // of damage that stays
  absl::CondVar wake_;
  absl::CondVar flushed_;
  absl::CondVar room_;  // something was sealed, or could not be

  mutable absl::Mutex view_mu_ ABSL_ACQUIRED_AFTER(mu_);
  std::shared_ptr<const SegmentView> view_ ABSL_GUARDED_BY(view_mu_);

  std::atomic<bool> stopping_{false};
  std::atomic<bool> crowded_{false};   // Crowded(), as of the last Publish: a writer need not wait for the lock
  std::atomic<bool> hurrying_{false};  // a flush waits: checks do not spare the disk
  std::thread builder_;
  std::thread rewriter_;  // the builder's, from the begin of a rewrite to its end
  std::thread checker_;
};

}  // namespace lightcone
