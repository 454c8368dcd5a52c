// The background builder: seals, merges, compacts, and writes checkpoints.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/priority.h"
#include "base/status.h"
#include "index/build/build_plan.h"
#include "index/build/kind_choice.h"
#include "index/life/segment_index.h"
#include "index/rows/disk_pace.h"
#include "index/rows/segment_codes.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

constexpr absl::Duration kRetryMin = absl::Seconds(1);
constexpr absl::Duration kRetryMax = absl::Seconds(60);
// Whoever meets damage raises a flag; files that nobody reads are looked at now and then.
constexpr absl::Duration kLookForDamageEvery = absl::Seconds(1);
constexpr absl::Duration kLookAtFilesEvery = absl::Seconds(5);

// What a flush waits for; merges it does not.
constexpr std::array kAwaitedRewrites = {RewriteKind::kRebuild, RewriteKind::kFinish, RewriteKind::kCompact};
// Niceness of the builder's thread: searches and writes come first.
constexpr int kBuilderNice = 10;

// What rows are sealed as in a hurry. Lists take 3 us a row of 128 numbers, files included, where a graph takes 60 to
// 120, and a search reads a few of them.
SealedKind ProvisionalKind(int64_t rows) { return rows > kScanRowsMax ? SealedKind::kIvf : SealedKind::kFlat; }
int ProvisionalLists(int64_t rows) {
  constexpr double kListsMax = 512;  // every search scores the centres of all such segments
  return static_cast<int>(std::min(kListsMax, std::sqrt(static_cast<double>(rows))));
}

}  // namespace

bool SegmentIndex::WaitForWork(absl::Duration retry) {
  const bool failing = retry != absl::ZeroDuration();
  absl::Time until = absl::Now() + (failing ? retry : kLookAtFilesEvery);
  absl::MutexLock lock(&mu_);
  for (const Trial& trial : trials_) {
    if (trial.error.ok() || failing || rewrite_ != nullptr) continue;  // One that is at work ends first, and wakes.
    until = std::min(until, absl::Now() + absl::FromChrono(trial.next - std::chrono::steady_clock::now()));
  }
  // What failed is not tried again for every write that comes: a full disk would be filled over and over. Where it was
  // only damage that could not be mended, the rows of writes go on to be sealed.
  const auto due = [this, failing]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!failing) return work_due_ || AnyDamaged() || RewriteDone();
    return flush_requested_ != flush_done_ || (work_due_ && sealing_error_.ok() && Crowded());
  };
  while (!stopping() && !due() && absl::Now() < until) {
    if (RewriteDone()) {  // That alone is no reason to try again what fails.
      mu_.Unlock();
      FinishRewrite();
      mu_.Lock();
      continue;
    }
    wake_.WaitWithDeadline(&mu_, std::min(until, absl::Now() + kLookForDamageEvery));
  }
  if (stopping()) return false;
  work_due_ = false;
  TakeFlush();
  return true;
}

void SegmentIndex::TakeFlush() {
  if (flush_requested_ == flushing_.ticket) return;
  // One more: rows that came back from the store count as written by the next change.
  flushing_ = {
      flush_requested_, std::max(applied_, loaded_newest_sequence_) + 1, next_segment_id_, /*written=*/false, {}};
  checkpoint_due_ = true;
  for (Trial& trial : trials_) trial.next = {};  // It does not wait for another try.
}

void SegmentIndex::AnswerFlush(const absl::Status& status) {
  if (flush_done_ != flushing_.ticket) flush_error_ = status;
  flush_done_ = flushing_.ticket;
  if (flush_done_ == flush_requested_) hurrying_.store(false);
  flushed_.SignalAll();
  room_.SignalAll();
}

bool SegmentIndex::YoungerThanFlush(const Job* seal) const {
  const auto younger = [this](const Job& job) {
    mu_.AssertHeld();
    return job.plan.last_sequence > flushing_.sequence;
  };
  if (seal == nullptr && rewrite_ == nullptr) return false;  // nothing is left to do: the flush ends as the work does
  if (seal != nullptr && !younger(*seal)) return false;
  return rewrite_ == nullptr || younger(rewrite_->job) ||
         std::none_of(rewrite_->job.sources.begin(), rewrite_->job.sources.end(), [this](const auto& segment) {
           mu_.AssertHeld();
           return segment->id() < flushing_.next_id;
         });
}

absl::Status SegmentIndex::FlushFailure() const {
  return flushing_.failed ? trials_[static_cast<size_t>(*flushing_.failed)].error : absl::OkStatus();
}

bool SegmentIndex::FlushSettled(const Job* seal) const {
  if (flushing_.ticket == flush_done_ || !flushing_.written || !unchecked_.empty()) return false;
  if (!YoungerThanFlush(seal) || AnyDamaged()) return false;
  const int64_t all_rows = AllRows();
  const auto to_be_rewritten = [&](const SealedSegment& segment) {
    mu_.AssertHeld();
    const std::vector<BuildInput> alone = {InputOf(segment, all_rows)};
    return std::any_of(kAwaitedRewrites.begin(), kAwaitedRewrites.end(), [&](RewriteKind kind) {
      mu_.AssertHeld();
      return !PlanRewrite(kind, alone, settings_).empty();
    });
  };
  for (const auto& [number, generation] : generations_) {
    // What was damaged is whole again only once its rows are in files.
    if (!generation.damaged.empty() || (generation.active != nullptr && generation.active->recovered())) return false;
    for (const auto& segment : generation.frozen) {
      if (segment->recovered() || segment->last_sequence() <= flushing_.sequence) return false;
    }
    for (const auto& segment : generation.sealed) {
      // What was written since is not waited for: where rows change all the time, something is always due for
      // compaction. Provisional ones it does wait for, whenever they were sealed: what they are rewritten to is none.
      const SegmentManifest& of = segment->manifest();
      const bool asked = of.provisional ? of.first_sequence <= flushing_.sequence
                                        : segment->id() < flushing_.next_id && of.last_sequence <= flushing_.sequence;
      if (FlushFailure().ok() && asked && to_be_rewritten(*segment)) {
        return false;
      }
    }
  }
  return true;
}

void SegmentIndex::BuilderLoop() {
  StandBack(kBuilderNice);
  absl::Duration retry = absl::ZeroDuration();  // Zero: the last work succeeded.
  while (WaitForWork(retry)) {
    absl::Status status, unmended;
    try {
      FinishRewrite();
      StartRewrite();
      LetBurstPass();
      LookAtFiles();
      status = WorkUntilIdle(&unmended);
    } catch (...) {  // Out of memory ends neither the process nor the waiting of a flush.
      status = StatusOfException();
    }
    if (stopping()) return;
    const absl::Status sealing_error = status;
    status.Update(unmended);
    if (status.ok()) {
      retry = absl::ZeroDuration();
    } else {
      spdlog::error("index '{}': {}", folder_, MessageOf(status));
      retry = std::clamp(2 * retry, kRetryMin, kRetryMax);
    }
    absl::MutexLock lock(&mu_);
    sealing_error_ = sealing_error;
    status.Update(RewriteError());
    AnswerFlush(status);
  }
}

absl::Status SegmentIndex::WorkUntilIdle(absl::Status* unmended) {
  uint64_t looked = 0;                      // the flush before whose taking the files were looked at
  std::map<uint32_t, absl::Status> failed;  // generations whose damage stays this time; the others are worked on
  while (!stopping()) {
    {
      absl::ReleasableMutexLock lock(&mu_);
      if (flush_requested_ != flush_done_ && flush_requested_ > looked) {
        looked = flush_requested_;
        failed.clear();  // A flush does not wait for another try.
        lock.Release();
        LookAtFiles();
      }
    }
    LC_RETURN_IF_ERROR(MendDamage(&failed));
    *unmended = failed.empty() ? absl::OkStatus() : failed.begin()->second;
    std::optional<Job> job;
    bool checkpoint = false;
    {
      absl::MutexLock lock(&mu_);
      mending_error_ = *unmended;
      if (flushing_.ticket == flush_done_ && flush_requested_ <= looked) TakeFlush();
      job = InTurn(seal_turn_, [this](uint32_t number, Generation& generation) {
        mu_.AssertHeld();
        return SealOf(number, generation);
      });
      const Job* const seal = job ? &*job : nullptr;
      // Where writes never pause, neither does the work: nobody waits for what came after the flush.
      if (FlushSettled(seal)) AnswerFlush(FlushFailure());
      if (!failed.empty() && flushing_.ticket != flush_done_ && flushing_.written && YoungerThanFlush(seal)) {
        AnswerFlush(*unmended);
      }
    }
    // After that: what is put in place now has yet to be in a checkpoint.
    FinishRewrite();
    StartRewrite();
    {
      absl::MutexLock lock(&mu_);
      checkpoint = checkpoint_due_;
      if (!job && !checkpoint && flush_requested_ != flush_done_ && (!unchecked_.empty() || rewrite_ != nullptr)) {
        // For the checker, because what it finds is mended before a flush is answered; or for the rewrite.
        if (!RewriteDone() && !stopping()) wake_.WaitWithTimeout(&mu_, kLookForDamageEvery);
        continue;
      }
    }
    if (!job && !checkpoint) break;
    LC_RETURN_IF_ERROR(job ? Seal(*job) : WriteCheckpoint());
    if (job && job->plan.provisional && MayWaitForBurst()) break;
  }
  return absl::OkStatus();
}

BuildInput SegmentIndex::InputOf(const SealedSegment& segment, int64_t all_rows) const {
  const bool provisional = segment.manifest().provisional;
  return {segment.stale() || (!provisional && Outgrown(segment, all_rows)), segment.rows(),
          segment.counts().Of(kDeleted), provisional};
}

std::optional<SegmentIndex::Job> SegmentIndex::InTurn(
    uint32_t& turn, absl::FunctionRef<std::optional<Job>(uint32_t, Generation&)> job_of) {
  const auto first = generations_.upper_bound(turn);
  auto it = first;
  for (size_t i = 0; i < generations_.size(); ++i, ++it) {
    if (it == generations_.end()) it = generations_.begin();
    if (std::optional<Job> job = job_of(it->first, it->second)) {
      turn = it->first;
      return job;
    }
  }
  return std::nullopt;
}

std::optional<SegmentIndex::Job> SegmentIndex::SealOf(uint32_t number, Generation& generation, int64_t rows_max) {
  std::vector<BuildInput> inputs;
  for (const auto& segment : generation.frozen) {
    inputs.push_back({.rows = segment->rows(), .deleted = segment->counts().Of(kDeleted)});
  }
  const int64_t waiting =
      std::accumulate(inputs.begin(), inputs.end(), int64_t{0},
                      [](int64_t rows, const BuildInput& of) { return rows + of.rows - of.deleted; });
  const bool hurry = generation.frozen.size() > 1 && HurryIsDue(waiting);
  if (limits_.unsealed_bytes_max > 0 && !generation.frozen.empty()) {
    const GrowingSegment& oldest = *generation.frozen.front();
    const int64_t row_bytes = oldest.heap_bytes() / std::max<int64_t>(1, oldest.rows());
    const int64_t share = hurry ? kHurryShare : kSealedShare;
    rows_max = std::min(rows_max, limits_.unsealed_bytes_max / share / std::max<int64_t>(1, row_bytes));
  }
  const size_t chosen = PlanSeal(inputs, settings_, rows_max);
  if (chosen == 0) return std::nullopt;
  int64_t live = 0;
  SegmentPlan plan;
  plan.first_sequence = UINT64_MAX;
  for (size_t i = 0; i < chosen; ++i) {
    const GrowingSegment& segment = *generation.frozen[i];
    live += inputs[i].rows - inputs[i].deleted;
    plan.first_sequence = std::min(plan.first_sequence, segment.first_sequence());
    plan.last_sequence = std::max(plan.last_sequence, segment.last_sequence());
  }
  const auto begin = generation.frozen.begin();
  Job job = BeginJob(number, generation.space, live, std::move(plan), {begin, begin + static_cast<ptrdiff_t>(chosen)});
  if (hurry && job.plan.settings.kind != SealedKind::kFlat) {
    job.plan.provisional = true;
    job.plan.settings.kind = ProvisionalKind(live);
    job.plan.settings.ivf_lists = ProvisionalLists(live);
    job.plan.settings.codes = CodesWithoutLists(job.plan.settings.codes);
  }
  return job;
}

std::vector<size_t> SegmentIndex::PlanOf(RewriteKind kind, const Generation& generation) const {
  const int64_t all_rows = AllRows();
  std::vector<BuildInput> inputs;
  for (const auto& segment : generation.sealed) inputs.push_back(InputOf(*segment, all_rows));
  IndexSettings settings = settings_;
  settings.growing_rows_max = GrowingRowsMax(generation.space);
  return PlanRewrite(kind, inputs, settings);
}

std::optional<SegmentIndex::Job> SegmentIndex::RewriteOf(RewriteKind kind, uint32_t number, Generation& generation) {
  int64_t live = 0;
  SegmentPlan plan;
  plan.first_sequence = UINT64_MAX;
  std::vector<std::shared_ptr<Segment>> sources;
  std::vector<std::shared_ptr<SealedSegment>> sealed;
  for (const size_t i : PlanOf(kind, generation)) {
    const std::shared_ptr<SealedSegment>& segment = generation.sealed[i];
    live += segment->rows() - segment->counts().Of(kDeleted);
    plan.first_sequence = std::min(plan.first_sequence, segment->manifest().first_sequence);
    plan.last_sequence = std::max(plan.last_sequence, segment->manifest().last_sequence);
    sources.push_back(segment);
    sealed.push_back(segment);
  }
  if (sources.empty()) return std::nullopt;
  Job job = BeginJob(number, generation.space, live, std::move(plan), std::move(sources));
  job.sealed_sources = std::move(sealed);
  return job;
}

SegmentIndex::Job SegmentIndex::BeginJob(uint32_t number, const Space& space, int64_t live, SegmentPlan plan,
                                         std::vector<std::shared_ptr<Segment>> sources) {
  Job job;
  job.generation = number;
  job.rebuild = rebuilds_asked_;
  job.plan = std::move(plan);
  job.plan.id = next_segment_id_++;
  job.plan.settings = settings_;
  const KindChoice choice = ChoiceOf(space, live, nullptr, AllRows());
  job.plan.settings.kind = choice.kind;
  job.plan.settings.codes = choice.codes;
  job.sources = std::move(sources);
  for (const auto& segment : job.sources) job.rows_of.push_back(segment->rows());
  ++builds_running_;
  return job;
}

SegmentIndex::Built SegmentIndex::Build(const Job& job, const std::atomic<bool>* unwanted) {
  Built built;
  BuildControl control;
  control.stop = [this, unwanted] { return stopping() || (unwanted != nullptr && unwanted->load()); };
  const bool hurry = job.plan.provisional;
  control.pace = [this, hurry, &control](size_t bytes) {
    AwaitBuildPace(bytes, limits_.build_bytes_per_second_max,
                   [&] { return control.stop() || hurry || crowded_.load(); });
  };
  try {
    for (const auto& segment : job.sealed_sources) {
      if (CheckSegment(*segment, /*hurry=*/true, control.stop)) continue;
      built.status = MakeStatus(absl::StatusCode::kCancelled, "the index stops");
      return built;
    }
    built.rows = GatherRows(job.sources, job.rows_of);
    if (built.rows.empty() || Damaged(job)) return built;
    auto written = WriteSegment(SegmentFolder(job.plan.id), job.plan, job.sources, built.rows, control);
    built.status = written.status();
    if (written.ok()) built.segment = std::move(*written);
  } catch (...) {
    built.status = StatusOfException();
  }
  return built;
}

// Damage must not get into new files, whose sums would call it right.
bool SegmentIndex::Damaged(const Job& job) {
  return std::any_of(job.sealed_sources.begin(), job.sealed_sources.end(),
                     [](const auto& segment) { return segment->damaged(); });
}

absl::Status SegmentIndex::Finish(const Job& job, Built built) {
  --builds_running_;
  if (Damaged(job)) {  // It is mended, and what is left of the job picked again.
    if (built.segment != nullptr) garbage_.push_back(built.segment->folder());
    return absl::OkStatus();
  }
  if (!built.status.ok()) return generations_.contains(job.generation) ? built.status : absl::OkStatus();
  ++builds_total_;
  Install(job, built.rows, std::move(built.segment));
  return absl::OkStatus();
}

absl::Status SegmentIndex::RewriteError() const {
  absl::Status status;
  for (const Trial& trial : trials_) status.Update(trial.error);
  return status;
}

absl::Status SegmentIndex::LastError() const {
  absl::Status status = sealing_error_;
  status.Update(mending_error_);
  status.Update(RewriteError());
  return status;
}

std::unique_ptr<SegmentIndex::Rewrite> SegmentIndex::PickRewrite() {
  const auto now = std::chrono::steady_clock::now();
  std::array kinds = {RewriteKind::kRebuild, RewriteKind::kFinish, RewriteKind::kCompact, RewriteKind::kMerge};
  // Under a load that never pauses there always are provisional segments: compactions and merges have half of the time.
  const bool finish_first = finish_lead_ <= finish_lead_.zero();
  if (!finish_first) std::rotate(kinds.begin() + 1, kinds.begin() + 2, kinds.end());
  for (const RewriteKind kind : kinds) {
    Trial& trial = trials_[static_cast<size_t>(kind)];
    const bool wanted = std::any_of(generations_.begin(), generations_.end(), [&](const auto& entry) {
      mu_.AssertHeld();
      return !PlanOf(kind, entry.second).empty();
    });
    if (!wanted) trial = {};  // What failed is not there any more.
    // Rows that are sealed together once need not be merged; and sealing comes first while it lags.
    const bool waits = (kind == RewriteKind::kMerge && Behind()) ||
                       (kind != RewriteKind::kRebuild && flush_requested_ == flush_done_ && LoadGoesOn());
    if (!wanted || now < trial.next || waits) continue;
    auto rewrite = std::make_unique<Rewrite>();
    rewrite->kind = kind;
    rewrite->begun = now;
    // Its turn was another's, who wants nothing: that is no lead.
    if (kind != RewriteKind::kRebuild && (kind == RewriteKind::kFinish) != finish_first) finish_lead_ = {};
    rewrite->flush = flushing_.ticket;
    rewrite->job = *InTurn(rewrite_turn_, [&](uint32_t number, Generation& generation) {
      mu_.AssertHeld();
      return RewriteOf(kind, number, generation);
    });
    return rewrite;
  }
  return nullptr;
}

absl::Status SegmentIndex::Seal(const Job& job) {
  Built built = Build(job);
  {
    absl::MutexLock lock(&mu_);
    LC_RETURN_IF_ERROR(Finish(job, std::move(built)));
    if (job.plan.provisional) last_provisional_ = std::chrono::steady_clock::now();
  }
  return WriteCheckpoint();
}

void SegmentIndex::StartRewrite() {
  Rewrite* rewrite = nullptr;
  {
    absl::MutexLock lock(&mu_);
    if (stopping() || rewrite_ != nullptr) return;
    rewrite_ = PickRewrite();
    if (rewrite_ == nullptr) return;
    rewrite = rewrite_.get();
  }
  const auto run = [this, rewrite] {  // as nice as the builder, which starts it
    Built built = Build(rewrite->job, &rewrite->unwanted);
    absl::MutexLock lock(&mu_);
    rewrite->built = std::move(built);
    rewrite->done = true;
    Wake();
  };
  try {
    rewriter_ = std::thread(run);
  } catch (...) {  // no more threads, or no memory
    absl::MutexLock lock(&mu_);
    rewrite->built.status = StatusOfException();
    rewrite->done = true;
  }
}

void SegmentIndex::FinishRewrite() {
  std::unique_ptr<Rewrite> rewrite;
  {
    absl::MutexLock lock(&mu_);
    if (!RewriteDone()) return;
    rewrite = std::move(rewrite_);
  }
  if (rewriter_.joinable()) rewriter_.join();
  absl::MutexLock lock(&mu_);
  const auto took = std::chrono::steady_clock::now() - rewrite->begun;
  if (rewrite->kind != RewriteKind::kRebuild) finish_lead_ += rewrite->kind == RewriteKind::kFinish ? took : -took;
  Trial& trial = trials_[static_cast<size_t>(rewrite->kind)];
  try {
    trial.error = Finish(rewrite->job, std::move(rewrite->built));
  } catch (...) {
    trial.error = StatusOfException();
  }
  if (trial.error.ok() || rewrite->unwanted.load()) {
    trial = {};
    return;
  }
  if (stopping()) return;
  spdlog::error("index '{}': {}", folder_, MessageOf(trial.error));
  if (rewrite->flush != flushing_.ticket) return;  // A flush has come since, and asks for another try at once.
  trial.retry = std::clamp(2 * trial.retry, kRetryMin, kRetryMax);
  trial.next = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(trial.retry);
  flushing_.failed = rewrite->kind;
}

void SegmentIndex::Install(const Job& job, const std::vector<RowReference>& rows,
                           std::shared_ptr<SealedSegment> built) {
  const auto is_source = [&job](const std::shared_ptr<Segment>& segment) {
    return std::find(job.sources.begin(), job.sources.end(), segment) != job.sources.end();
  };
  const auto it = generations_.find(job.generation);
  const bool there =
      it != generations_.end() && (std::any_of(it->second.frozen.begin(), it->second.frozen.end(), is_source) ||
                                   std::any_of(it->second.sealed.begin(), it->second.sealed.end(), is_source));
  checkpoint_due_ = true;
  flushing_.written = false;
  if (!there) {  // The generation was dropped meanwhile.
    if (built != nullptr) garbage_.push_back(built->folder());
    return;
  }
  Generation& generation = it->second;
  if (built != nullptr) {
    // Carries over what happened to the rows up to now, changes during the build included.
    for (size_t i = 0; i < rows.size(); ++i) {
      const RowStates& states = job.sources[rows[i].source]->states();
      const uint32_t row = rows[i].row, by = states.SupersededBy(row);
      const int64_t to = static_cast<int64_t>(i);
      if (by != kLive) built->SetState(to, by, states.SupersededAt(row));
      if (states.Get(row) == kDeleted) built->SetState(to, kDeleted, states.DeletedAt(row));
    }
    built->set_dirty(true);                                  // It has no state file yet.
    if (job.rebuild != rebuilds_asked_) built->set_stale();  // Other settings came while it was built.
    built->set_lasting();
    generation.sealed.push_back(std::move(built));
  }
  for (const auto& segment : generation.sealed) {
    if (is_source(segment)) garbage_.push_back(segment->folder());
  }
  std::erase_if(unchecked_, is_source);
  std::erase_if(generation.sealed, is_source);
  std::erase_if(generation.frozen, is_source);
  if (job.sealed_sources.empty()) {
    sealing_error_ = absl::OkStatus();
    room_.SignalAll();
  }
  generation.touched = true;
  Publish();
}

}  // namespace lightcone
