#include "index/life/rewrites.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "base/exceptions.h"
#include "base/status.h"
#include "index/rows/measured_recall.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kAwaitedByFlush = {RewriteKind::kRebuild, RewriteKind::kFinish, RewriteKind::kCompact};

}  // namespace

absl::Duration NextRetry(absl::Duration last) { return std::clamp(2 * last, absl::Seconds(1), absl::Seconds(60)); }

void Rewrites::Open(std::shared_ptr<WorkPool> pool) {
  work_ = std::make_unique<RecurringWork>(std::move(pool), [this] {
    BuildQueued();
    return absl::InfiniteDuration();
  });
}

void Rewrites::Start() {
  LC_DCHECK(work_ != nullptr);
  {
    absl::MutexLock lock(&state_.mu);
    if (state_.stopping() || rewrite_ != nullptr) return;
    rewrite_ = PickNext();
    if (rewrite_ == nullptr) return;
  }
  work_->Wake();
}

Rewrites::Rewrite* Rewrites::PickAnew() {
  std::unique_ptr<Rewrite> queued;  // outlives the lock: its sources may be unmapped
  absl::MutexLock lock(&state_.mu);
  if (rewrite_ == nullptr || rewrite_->done) return nullptr;
  LC_DCHECK(!rewrite_->building);
  try {
    turn_ = rewrite_->turn_before;
    std::unique_ptr<Rewrite> now = PickNext();
    queued = std::exchange(rewrite_, std::move(now));
  } catch (...) {  // Without memory for that, what was picked before is built.
    turn_ = rewrite_->job.generation;
  }
  if (rewrite_ == nullptr) {
    state_.Wake();
    return nullptr;
  }
  rewrite_->building = true;
  return rewrite_.get();
}

void Rewrites::BuildQueued() {
  Rewrite* const rewrite = PickAnew();
  if (rewrite == nullptr) return;
  BuiltSegment built = builds_.Build(rewrite->job, &rewrite->unwanted);
  absl::MutexLock lock(&state_.mu);
  rewrite->built = std::move(built);
  rewrite->done = true;
  state_.Wake();
}

void Rewrites::Finish() {
  std::unique_ptr<Rewrite> rewrite;  // outlives the lock: its sources may be unmapped
  absl::MutexLock lock(&state_.mu);
  if (!IsDone()) return;
  rewrite = std::move(rewrite_);
  const auto took = Clock::now() - rewrite->begun;
  if (rewrite->kind != RewriteKind::kRebuild) finish_lead_ += rewrite->kind == RewriteKind::kFinish ? took : -took;
  Trial& trial = trials_[static_cast<size_t>(rewrite->kind)];
  try {
    trial.error = builds_.Finish(rewrite->job, std::move(rewrite->built));
  } catch (...) {
    trial.error = StatusOfException();
  }
  if (trial.error.ok() || rewrite->unwanted.load()) {
    trial = {};
    return;
  }
  if (state_.stopping()) return;
  spdlog::error("index '{}': {}", state_.folder, MessageOf(trial.error));
  if (rewrite->flush != state_.flush.current.ticket) return;  // A flush came since, and wants another try at once.
  trial.retry = NextRetry(trial.retry);
  trial.next = Clock::now() + absl::ToChronoMilliseconds(trial.retry);
  state_.flush.current.failed = rewrite->kind;
}

void Rewrites::Cancel(uint32_t generation) {
  std::unique_ptr<Rewrite> queued;  // outlives the lock: its sources may be unmapped
  absl::MutexLock lock(&state_.mu);
  if (rewrite_ == nullptr || rewrite_->job.generation != generation) return;
  if (rewrite_->building) {
    rewrite_->unwanted.store(true);
    return;
  }
  queued = std::move(rewrite_);
  state_.Wake();
}

bool Rewrites::IsUnderWay() const {
  state_.mu.AssertHeld();
  return rewrite_ != nullptr;
}

bool Rewrites::IsDone() const {
  state_.mu.AssertHeld();
  return rewrite_ != nullptr && rewrite_->done;
}

bool Rewrites::WorksForFlush() const {
  state_.mu.AssertHeld();
  if (rewrite_ == nullptr) return false;
  const FlushState::Current& flush = state_.flush.current;
  const auto& sources = rewrite_->job.sources;
  return rewrite_->job.plan.last_sequence <= flush.sequence &&
         std::any_of(sources.begin(), sources.end(), [&](const auto& s) { return s->id() < flush.next_id; });
}

bool Rewrites::IsAwaited(const SealedSegment& segment, int64_t all_rows) const {
  state_.mu.AssertHeld();
  const std::vector<BuildInput> alone = {InputOf(segment, all_rows, /*for_flush=*/true)};
  return std::any_of(kAwaitedByFlush.begin(), kAwaitedByFlush.end(), [&](RewriteKind kind) {
    state_.mu.AssertHeld();
    return !PlanRewrite(kind, alone, state_.settings).empty();
  });
}

absl::Duration Rewrites::NextTry() const {
  state_.mu.AssertHeld();
  absl::Duration next = absl::InfiniteDuration();
  if (rewrite_ != nullptr) return next;  // It ends first, and wakes the builder.
  for (const Trial& trial : trials_) {
    if (!trial.error.ok()) next = std::min(next, absl::FromChrono(trial.next - Clock::now()));
  }
  return next;
}

void Rewrites::RetryNow() {
  state_.mu.AssertHeld();
  for (Trial& trial : trials_) trial.next = {};
}

absl::Status Rewrites::LastError() const {
  state_.mu.AssertHeld();
  absl::Status status;
  for (const Trial& trial : trials_) status.Update(trial.error);
  return status;
}

absl::Status Rewrites::LastError(RewriteKind kind) const {
  state_.mu.AssertHeld();
  return trials_[static_cast<size_t>(kind)].error;
}

std::unique_ptr<Rewrites::Rewrite> Rewrites::PickNext() {
  const auto now = Clock::now();
  std::array kinds = {RewriteKind::kRebuild, RewriteKind::kFinish, RewriteKind::kCompact, RewriteKind::kMerge};
  // Under a load that never pauses there always are provisional segments: compactions and merges get half of the time.
  const bool finish_first = finish_lead_ <= finish_lead_.zero();
  if (!finish_first) std::rotate(kinds.begin() + 1, kinds.begin() + 2, kinds.end());
  for (const RewriteKind kind : kinds) {
    Trial& trial = trials_[static_cast<size_t>(kind)];
    const bool wanted =
        std::any_of(state_.generations.begin(), state_.generations.end(), [this, kind](const auto& entry) {
          state_.mu.AssertHeld();
          return !PlanFor(kind, entry.second).empty();
        });
    if (!wanted) trial = {};  // The segments that failed are gone.
    // Rows that are sealed together need no merge; and sealing comes first while it lags.
    const bool waits = (kind == RewriteKind::kMerge && load_.IsBehind()) ||
                       (kind != RewriteKind::kRebuild && !state_.flush.pending() && load_.GoesOn());
    if (!wanted || now < trial.next || waits) continue;
    auto rewrite = std::make_unique<Rewrite>();
    rewrite->kind = kind;
    rewrite->begun = now;
    // The kinds whose turn it was want nothing: that is no lead.
    if (kind != RewriteKind::kRebuild && (kind == RewriteKind::kFinish) != finish_first) finish_lead_ = {};
    rewrite->flush = state_.flush.current.ticket;
    rewrite->turn_before = turn_;
    rewrite->job = *builds_.BeginInTurn(turn_, [this, kind](uint32_t number, GenerationRows& generation) {
      state_.mu.AssertHeld();
      return BeginFor(kind, number, generation);
    });
    return rewrite;
  }
  return nullptr;
}

// A graph or product quantisation of an earlier version, which was measured to find too little and never mended.
bool Rewrites::IsToBeMended(const SealedSegment& segment) const {
  if (segment.manifest().mended || segment.measured().empty()) return false;
  if (segment.graph() != nullptr) return !WalksFindEnough(segment.measured(), state_.settings.hnsw_ef_search);
  return segment.pq() != nullptr && !ListsFindEnough(segment.measured());
}

BuildInput Rewrites::InputOf(const SealedSegment& segment, int64_t all_rows, bool for_flush) const {
  const bool provisional = segment.manifest().provisional;
  bool stale = segment.stale();
  if (!stale && !provisional) {  // Settings that leave the choice open would seal it as something else by now.
    const KindChoice choice = state_.ChoiceOf(segment.space(), segment.rows(), &segment, all_rows);
    stale = (state_.settings.kind == SealedKind::kAuto && segment.kind() != SealedKindName(choice.kind)) ||
            (state_.settings.codes == RowCodes::kAuto && segment.codes_asked() != RowCodesName(choice.codes)) ||
            (!for_flush && IsToBeMended(segment));
  }
  return {stale, segment.rows(), segment.counts().Of(kDeleted), provisional};
}

std::vector<size_t> Rewrites::PlanFor(RewriteKind kind, const GenerationRows& generation) const {
  const int64_t all_rows = state_.AllRows();
  std::vector<BuildInput> inputs;
  for (const auto& segment : generation.sealed) inputs.push_back(InputOf(*segment, all_rows, /*for_flush=*/false));
  IndexSettings settings = state_.settings;
  settings.growing_rows_max = state_.GrowingRowsMax(generation.space);
  return PlanRewrite(kind, inputs, settings);
}

std::optional<BuildJob> Rewrites::BeginFor(RewriteKind kind, uint32_t number, GenerationRows& generation) {
  int64_t live = 0;
  SegmentPlan plan;
  plan.first_sequence = UINT64_MAX;
  std::vector<std::shared_ptr<SealedSegment>> sources;
  for (const size_t i : PlanFor(kind, generation)) {
    const std::shared_ptr<SealedSegment>& segment = generation.sealed[i];
    live += segment->rows() - segment->counts().Of(kDeleted);
    plan.first_sequence = std::min(plan.first_sequence, segment->manifest().first_sequence);
    plan.last_sequence = std::max(plan.last_sequence, segment->manifest().last_sequence);
    sources.push_back(segment);
  }
  if (sources.empty()) return std::nullopt;
  BuildJob job = builds_.Begin(number, generation.space, live, std::move(plan), {sources.begin(), sources.end()});
  job.sealed_sources = std::move(sources);
  return job;
}

}  // namespace lightcone
