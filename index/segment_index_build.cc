// The background builder: seals, merges, compacts, and writes checkpoints.
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/files.h"
#include "base/status.h"
#include "index/build_plan.h"
#include "index/segment_index.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

constexpr absl::Duration kRetryMin = absl::Seconds(1);
constexpr absl::Duration kRetryMax = absl::Seconds(60);
// Whoever meets damage raises a flag; files that nobody reads are looked at now and then.
constexpr absl::Duration kLookForDamageEvery = absl::Seconds(1);
constexpr absl::Duration kLookAtFilesEvery = absl::Seconds(5);

// A graph costs a core for seconds, which a burst of writes needs for itself; and rows that are sealed together once
// are not merged later. So the builder waits until no write has come for kQuiet, but no longer than kDeferMax, and not
// once this many full growing segments would have to be scanned by every search.
constexpr absl::Duration kQuiet = absl::Milliseconds(300);
constexpr absl::Duration kDeferMax = absl::Seconds(10);
constexpr int64_t kDeferredSegmentsMax = 4;
// One job seals at most this part of what may wait to be sealed: memory comes back step by step, not all of it at the
// end of a build that takes hours.
constexpr int64_t kSealedShare = 4;
// Niceness of the builder's thread: searches and writes come first.
constexpr int kBuilderNice = 10;

}  // namespace

bool SegmentIndex::WaitForWork(absl::Duration retry) {
  const bool failing = retry != absl::ZeroDuration();
  const absl::Time until = absl::Now() + (failing ? retry : kLookAtFilesEvery);
  absl::MutexLock lock(&mu_);
  // What failed is not tried again for every write that comes: a full disk would be filled over and over. Where it was
  // only damage that could not be mended, the rows of writes go on to be sealed.
  const auto due = [this, failing]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!failing) return work_due_ || AnyDamaged();
    return flush_requested_ != flush_done_ || (work_due_ && sealing_error_.ok() && Crowded());
  };
  while (!stopping() && !due() && absl::Now() < until) {
    wake_.WaitWithDeadline(&mu_, std::min(until, absl::Now() + kLookForDamageEvery));
  }
  if (stopping()) return false;
  work_due_ = false;
  TakeFlush();
  return true;
}

void SegmentIndex::TakeFlush() {
  flushing_ = {flush_requested_, std::max(applied_, loaded_newest_sequence_), /*written=*/false};
}

void SegmentIndex::AnswerFlush(const absl::Status& status) {
  last_error_ = status;
  flush_done_ = flushing_.ticket;
  if (flush_done_ == flush_requested_) hurrying_.store(false);
  flushed_.SignalAll();
  room_.SignalAll();
}

bool SegmentIndex::FlushSettled(const Job& job) const {
  if (flushing_.ticket == flush_done_ || !flushing_.written || !unchecked_.empty()) return false;
  if (job.plan.last_sequence <= flushing_.sequence || AnyDamaged()) return false;
  const int64_t all_rows = AllRows();
  for (const auto& [number, generation] : generations_) {
    // What was damaged is whole again only once its rows are in files.
    if (!generation.damaged.empty() || (generation.active != nullptr && generation.active->recovered())) return false;
    for (const auto& segment : generation.frozen) {
      if (segment->recovered() || segment->last_sequence() <= flushing_.sequence) return false;
    }
    for (const auto& segment : generation.sealed) {
      if (segment->manifest().last_sequence <= flushing_.sequence &&
          !PlanBuild({InputOf(*segment, all_rows)}, settings_).empty()) {
        return false;
      }
    }
  }
  return true;
}

void SegmentIndex::LetBurstPass() {
  const absl::Time latest = absl::Now() + kDeferMax;
  absl::MutexLock lock(&mu_);
  while (!stopping() && flush_requested_ == flush_done_ && !AnyDamaged()) {
    int64_t rows = 0;
    for (const auto& [number, generation] : generations_) {
      for (const auto& segment : generation.frozen) rows += segment->rows();
    }
    const absl::Time quiet_at = std::min(last_apply_ + kQuiet, latest);
    if (rows >= kDeferredSegmentsMax * settings_.growing_rows_max || Crowded() || absl::Now() >= quiet_at) return;
    wake_.WaitWithDeadline(&mu_, quiet_at);
  }
}

void SegmentIndex::BuilderLoop() {
  ::setpriority(PRIO_PROCESS, 0,
                kBuilderNice);                  // Linux: of the calling thread alone. Refused: it runs as the others do
  absl::Duration retry = absl::ZeroDuration();  // Zero: the last work succeeded.
  while (WaitForWork(retry)) {
    absl::Status status, unmended;
    LetBurstPass();
    try {
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
    AnswerFlush(status);
  }
}

absl::Status SegmentIndex::WorkUntilIdle(absl::Status* unmended) {
  uint64_t looked = 0;  // the flush before whose taking the files were looked at
  std::map<uint32_t, absl::Status> failed;  // generations whose damage stays this time; the others are worked on
  while (!stopping()) {
    {
      absl::ReleasableMutexLock lock(&mu_);
      if (flush_requested_ != flush_done_ && flush_requested_ > looked) {
        looked = flush_requested_;
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
      if (stopping()) return absl::OkStatus();           // under the lock: nobody would wake what waits from here on
      if (flushing_.ticket == flush_done_ && flush_requested_ <= looked) TakeFlush();
      job = PickJob();
      // Where writes never pause, neither does the work: nobody waits for what came after the flush.
      if (job && FlushSettled(*job)) AnswerFlush(absl::OkStatus());
      if (job && !failed.empty() && flushing_.ticket != flush_done_ && flushing_.written &&
          job->plan.last_sequence > flushing_.sequence) {
        AnswerFlush(*unmended);
      }
      checkpoint = checkpoint_due_;
      if (!job && !checkpoint && flush_requested_ != flush_done_ && !unchecked_.empty()) {
        wake_.Wait(&mu_);  // For the checker: what it finds is mended before a flush is answered.
        continue;
      }
    }
    if (job) {
      LC_RETURN_IF_ERROR(RunJob(*job));
    } else if (!checkpoint) {
      break;
    }
    LC_RETURN_IF_ERROR(WriteCheckpoint());
  }
  return absl::OkStatus();
}

BuildInput SegmentIndex::InputOf(const SealedSegment& segment, int64_t all_rows) const {
  return {false, segment.stale() || Outgrown(segment, all_rows), segment.rows(), segment.counts().Of(kDeleted)};
}

std::optional<SegmentIndex::Job> SegmentIndex::PickJob() {
  // By turns: one generation that always has something to do would keep all that come after it from being sealed.
  const auto first = generations_.upper_bound(turn_);
  for (auto it = first; it != generations_.end(); ++it) {
    if (std::optional<Job> job = JobOf(it->first, it->second)) return job;
  }
  for (auto it = generations_.begin(); it != first; ++it) {
    if (std::optional<Job> job = JobOf(it->first, it->second)) return job;
  }
  return std::nullopt;
}

std::optional<SegmentIndex::Job> SegmentIndex::JobOf(uint32_t number, Generation& generation) {
  const int64_t all_rows = AllRows();
  std::vector<BuildInput> inputs;
  for (const auto& segment : generation.frozen) {
    inputs.push_back({true, false, segment->rows(), segment->counts().Of(kDeleted)});
  }
  for (const auto& segment : generation.sealed) inputs.push_back(InputOf(*segment, all_rows));
  int64_t seal_rows_max = INT64_MAX;
  if (limits_.unsealed_bytes_max > 0 && !generation.frozen.empty()) {
    const GrowingSegment& oldest = *generation.frozen.front();
    const int64_t row_bytes = oldest.heap_bytes() / std::max<int64_t>(1, oldest.rows());
    seal_rows_max = limits_.unsealed_bytes_max / kSealedShare / std::max<int64_t>(1, row_bytes);
  }
  const std::vector<size_t> chosen = PlanBuild(inputs, settings_, generation.sealed_last, seal_rows_max);
  if (chosen.empty()) return std::nullopt;
  generation.sealed_last = inputs[chosen[0]].growing;
  Job job;
  job.generation = turn_ = number;
  job.plan.id = next_segment_id_++;
  job.plan.settings = settings_;
  job.rebuild = rebuilds_asked_;
  job.plan.first_sequence = UINT64_MAX;
  const auto add = [&job](const auto& segment, uint64_t first, uint64_t last) {
    job.sources.push_back(segment);
    job.rows_of.push_back(segment->rows());
    job.plan.first_sequence = std::min(job.plan.first_sequence, first);
    job.plan.last_sequence = std::max(job.plan.last_sequence, last);
  };
  int64_t live = 0;
  for (const size_t i : chosen) {
    live += inputs[i].rows - inputs[i].deleted;
    if (i < generation.frozen.size()) {
      const auto& segment = generation.frozen[i];
      add(segment, segment->first_sequence(), segment->last_sequence());
    } else {
      const auto& segment = generation.sealed[i - generation.frozen.size()];
      add(segment, segment->manifest().first_sequence, segment->manifest().last_sequence);
      job.sealed_sources.push_back(segment);
    }
  }
  const KindChoice choice = ChoiceOf(generation.space, live, nullptr, all_rows);
  job.plan.settings.kind = choice.kind;
  job.plan.settings.codes = choice.codes;
  ++builds_running_;
  return job;
}

absl::Status SegmentIndex::RunJob(const Job& job) {
  std::vector<RowReference> rows;
  // Damage must not get into new files, whose sums would call it right.
  const auto damaged = [&job] {
    return std::any_of(job.sealed_sources.begin(), job.sealed_sources.end(),
                       [](const auto& segment) { return segment->damaged(); });
  };
  for (const auto& segment : job.sealed_sources) {
    if (CheckSegment(*segment, /*hurry=*/true)) continue;
    absl::MutexLock lock(&mu_);
    --builds_running_;
    return absl::OkStatus();  // stopping
  }
  std::shared_ptr<SealedSegment> built;
  absl::Status status;
  try {
    rows = GatherRows(job.sources, job.rows_of);
    if (!rows.empty() && !damaged()) {
      auto written =
          WriteSegment(SegmentFolder(job.plan.id), job.plan, job.sources, rows, [this] { return stopping(); });
      status = written.status();
      if (written.ok()) built = std::move(*written);
    }
  } catch (...) {
    status = StatusOfException();
  }
  absl::MutexLock lock(&mu_);
  --builds_running_;
  if (damaged()) {  // It is mended, and the job picked again.
    if (built != nullptr) garbage_.push_back(built->folder());
    return absl::OkStatus();
  }
  if (!status.ok()) return status;
  ++builds_total_;
  Install(job, rows, std::move(built));
  return absl::OkStatus();
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
  sealing_error_ = absl::OkStatus();
  room_.SignalAll();
  generation.touched = true;
  Publish();
}

uint64_t SegmentIndex::SequenceInFiles(const Generation& generation) const {
  uint64_t sequence = std::max(generation.floor, applied_);
  for (const auto& segment : generation.frozen) sequence = std::min(sequence, segment->first_sequence() - 1);
  if (generation.active != nullptr) sequence = std::min(sequence, generation.active->first_sequence() - 1);
  return sequence;
}

absl::Status SegmentIndex::WriteCheckpoint() {
  IndexCheckpoint checkpoint;
  std::vector<std::pair<std::shared_ptr<SealedSegment>, std::vector<uint32_t>>> states;
  std::vector<std::string> garbage;
  absl::Status status;
  try {
    CollectCheckpoint(checkpoint, states, garbage);
    for (auto& [segment, row_states] : states) {
      if (!status.ok()) break;
      status = WriteFileAtomically(StrCat(segment->folder(), "/", kStatesFile),
                                   EncodeStates({checkpoint.newest_sequence, std::move(row_states)}));
    }
    if (status.ok()) status = WriteFileAtomically(folder_ + "/index.json", EncodeIndexCheckpoint(checkpoint));
  } catch (...) {  // Out of memory: as with a full disk, what was collected is dirty still.
    status = StatusOfException();
  }
  if (status.ok()) {
    // Views that still use a deleted segment keep its mapping: the space is freed with the last of them.
    for (const std::string& folder : garbage) {
      std::error_code error;
      std::filesystem::remove_all(folder, error);
      if (error) spdlog::warn("index '{}': cannot remove '{}': {}", folder_, folder, error.message());
    }
  }
  absl::MutexLock lock(&mu_);
  if (!status.ok()) {
    checkpoint_due_ = true;
    for (auto& [segment, unused] : states) segment->set_dirty(true);
    return Annotate(status, "write checkpoint");
  }
  for (const IndexCheckpoint::Generation& entry : checkpoint.generations) {
    const auto it = generations_.find(entry.generation);
    if (it != generations_.end()) it->second.persisted = std::max(it->second.persisted, entry.sequence);
  }
  for (const std::string& folder : garbage) std::erase(garbage_, folder);
  flushing_.written = true;
  return absl::OkStatus();
}

void SegmentIndex::CollectCheckpoint(
    IndexCheckpoint& checkpoint, std::vector<std::pair<std::shared_ptr<SealedSegment>, std::vector<uint32_t>>>& states,
    std::vector<std::string>& garbage) {
  absl::MutexLock lock(&mu_);
  checkpoint_due_ = false;
  state_changes_ = 0;
  garbage = garbage_;
  checkpoint.next_segment_id = next_segment_id_;
  checkpoint.newest_sequence = std::max(applied_, loaded_newest_sequence_);
  const auto recovered = [](const auto& segment) { return segment != nullptr && segment->recovered(); };
  for (const auto& [number, generation] : generations_) {
    IndexCheckpoint::Generation entry{number, generation.space, SequenceInFiles(generation), true, {}};
    entry.complete = !generation.recovering && generation.damaged.empty() && !recovered(generation.active) &&
                     std::none_of(generation.frozen.begin(), generation.frozen.end(), recovered);
    for (const auto& segment : generation.sealed) {
      entry.segments.push_back(segment->id());
      if (!segment->dirty()) continue;
      states.emplace_back(segment, segment->CopyStates());
      segment->set_dirty(false);
    }
    checkpoint.generations.push_back(std::move(entry));
  }
}

}  // namespace lightcone
