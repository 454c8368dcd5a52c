#include "index/life/segment_index.h"

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "base/status.h"
#include "index/rows/segment_codes.h"

namespace lightcone {
namespace {

constexpr absl::Duration kCancelPoll = absl::Milliseconds(50);
// An active segment keeps the change log from its first row on, and every start replays that. So it is sealed as it is
// once this many growing segments' rows have changed since: too rarely to leave many small segments.
constexpr int64_t kLagSegments = 4;
// Rows that the drop of a generation looks up between two releases of the lock, and how long it then leaves that to
// others.
constexpr int64_t kAssessedAtOnce = 4'096;
constexpr absl::Duration kBreath = absl::Microseconds(100);

}  // namespace

SegmentIndex::SegmentIndex(std::string folder, const IndexSettings& settings, RowSource* source,
                           const IndexLimits& limits)
    : folder_(std::move(folder)), source_(source), limits_(limits), settings_(settings) {}

SegmentIndex::~SegmentIndex() {
  stopping_.store(true);
  {
    absl::MutexLock lock(&mu_);
    wake_.SignalAll();
    room_.SignalAll();
  }
  if (checker_.joinable()) checker_.join();
  if (builder_.joinable()) builder_.join();
  if (rewriter_.joinable()) rewriter_.join();
}

void SegmentIndex::Start() {
  builder_ = std::thread([this] { BuilderLoop(); });
  absl::MutexLock lock(&mu_);
  if (!unchecked_.empty()) checker_ = std::thread([this] { CheckerLoop(); });
}

absl::StatusOr<std::unique_ptr<CollectionIndex>> CollectionIndex::Open(
    const std::string& folder, const IndexSettings& settings,
    const std::vector<std::pair<uint32_t, Space>>& generations, RowSource* source, const IndexLimits& limits) {
  LC_RETURN_IF_ERROR(settings.Validate());
  auto index = std::make_unique<SegmentIndex>(folder, settings, source, limits);
  std::vector<std::pair<uint32_t, Space>> normalized;
  for (const auto& [number, space] : generations) {
    LC_RETURN_IF_ERROR(space.Validate());
    if (number == kLive || number == kDeleted) return InvalidField("generation", StrCat(number), "1 .. 4294967294");
    normalized.emplace_back(number, Normalized(space));
  }
  LC_RETURN_IF_ERROR(index->Load(normalized));
  index->Start();
  return std::unique_ptr<CollectionIndex>(std::move(index));
}

absl::Status SegmentIndex::AddGeneration(uint32_t generation, const Space& space) {
  LC_RETURN_IF_ERROR(space.Validate());
  if (generation == kLive || generation == kDeleted) {
    return InvalidField("generation", StrCat(generation), "1 .. 4294967294");
  }
  absl::MutexLock lock(&mu_);
  const auto it = generations_.find(generation);
  if (it != generations_.end()) {
    if (it->second.space == Normalized(space)) return absl::OkStatus();
    return AlreadyExists(StrCat("the index has generation ", generation, " with another space"));
  }
  Generation& added = generations_[generation];
  added.space = Normalized(space);
  added.floor = added.persisted = applied_;  // It has no rows, so all changes so far are "in files".
  checkpoint_due_ = true;
  Publish();
  Wake();
  return absl::OkStatus();
}

absl::Status SegmentIndex::PrepareDrop(uint32_t generation, const std::function<bool()>& cancelled) {
  {
    absl::MutexLock lock(&mu_);
    if (!generations_.contains(generation)) return NotFound(StrCat("the index has no generation ", generation));
    leaving_.emplace().generation = generation;
  }
  while (!cancelled()) {
    {
      absl::MutexLock lock(&mu_);
      if (!AssessSome()) return absl::OkStatus();
    }
    absl::SleepFor(kBreath);
  }
  absl::MutexLock lock(&mu_);
  leaving_.reset();
  return absl::CancelledError(StrCat("generation ", generation, " stays: dropping it was interrupted"));
}

absl::Status SegmentIndex::DropGeneration(uint32_t generation) {
  absl::MutexLock lock(&mu_);
  if (!generations_.contains(generation)) return NotFound(StrCat("the index has no generation ", generation));
  if (!leaving_ || leaving_->generation != generation) leaving_.emplace().generation = generation;
  // The last look and what follows are under one hold of the lock: a segment that came in between would not be
  // assessed.
  while (AssessSome()) {
    mu_.Unlock();
    absl::SleepFor(kBreath);
    mu_.Lock();
  }
  const auto it = generations_.find(generation);
  for (const auto& segment : it->second.sealed) garbage_.push_back(segment->folder());
  for (const auto& segment : it->second.damaged) garbage_.push_back(segment->folder());
  std::erase_if(unchecked_, [generation](const auto& segment) { return segment->generation() == generation; });
  if (rewrite_ != nullptr && rewrite_->job.generation == generation) rewrite_->unwanted.store(true);
  generations_.erase(it);
  legs_.erase(generation);
  ApplyAssessed();
  leaving_.reset();
  checkpoint_due_ = true;
  Publish();
  Wake();
  return absl::OkStatus();
}

bool SegmentIndex::AssessSome() {
  int64_t left = kAssessedAtOnce;
  const auto assess = [&](uint32_t number, const Segment& segment) {
    mu_.AssertHeld();
    if (segment.counts().Of(leaving_->generation) == 0) return true;
    Leaving::Assessed& assessed = leaving_->segments[segment.id()];
    for (; assessed.rows < segment.rows(); ++assessed.rows) {
      if (left-- == 0) return false;
      if (segment.states().Get(static_cast<size_t>(assessed.rows)) != leaving_->generation) continue;
      assessed.states.emplace_back(static_cast<uint32_t>(assessed.rows),
                                   SupersededBy(number, segment.block().ids[assessed.rows], leaving_->generation));
    }
    return true;
  };
  for (const auto& [number, generation] : generations_) {
    if (number >= leaving_->generation) break;
    for (const auto& segment : generation.sealed) {
      if (!assess(number, *segment)) return true;
    }
    for (const auto& segment : generation.frozen) {
      if (!assess(number, *segment)) return true;
    }
    if (generation.active != nullptr && !assess(number, *generation.active)) return true;
  }
  return false;
}

void SegmentIndex::ApplyAssessed() {
  const uint32_t gone = leaving_->generation;
  for (auto& [number, generation] : generations_) {
    if (number >= gone) break;
    const auto set = [&, &g = generation](const Place& place, uint32_t state) {
      mu_.AssertHeld();
      if (place.segment->states().Get(static_cast<size_t>(place.row)) == gone) SetState(g, place, state, applied_);
    };
    // First: their rows are not `gone` any more then, and what was found for them in advance is left out.
    for (const uint64_t id : leaving_->written) {
      if (const std::optional<Place> place = Find(generation, id)) set(*place, SupersededBy(number, id));
    }
    const auto apply = [&](Segment& segment) {
      mu_.AssertHeld();
      const auto assessed = leaving_->segments.find(segment.id());
      if (assessed == leaving_->segments.end()) return;
      for (const auto& [row, state] : assessed->second.states) set({&segment, row}, state);
    };
    for (const auto& segment : generation.sealed) apply(*segment);
    for (const auto& segment : generation.frozen) apply(*segment);
    if (generation.active != nullptr) apply(*generation.active);
  }
}

bool SegmentIndex::WantsRows(uint32_t generation, uint64_t sequence) const {
  absl::MutexLock lock(&mu_);
  const auto it = generations_.find(generation);
  return it != generations_.end() && sequence > it->second.floor;
}

absl::Status SegmentIndex::CheckChanges(uint64_t sequence, std::span<const RowChange> changes) const {
  for (const RowChange& change : changes) {
    if (change.kind != RowChange::Kind::kAdd) continue;
    const auto it = generations_.find(change.generation);
    if (it == generations_.end()) continue;      // Dropped since: an old entry of the change log.
    if (sequence <= it->second.floor) continue;  // In files.
    LC_RETURN_IF_ERROR(CheckVector(it->second.space, change.z, "vector"));
  }
  return absl::OkStatus();
}

absl::Status SegmentIndex::Apply(uint64_t sequence, std::span<const RowChange> changes) {
  absl::MutexLock lock(&mu_);
  if (sequence <= applied_) return absl::OkStatus();
  LC_RETURN_IF_ERROR(CheckChanges(sequence, changes));
  for (const RowChange& change : changes) {
    if (change.kind == RowChange::Kind::kDelete) {
      ApplyDelete(sequence, change.internal_id);
    } else {
      LC_RETURN_IF_ERROR(ApplyAdd(sequence, change));
    }
  }
  applied_ = sequence;
  last_apply_ = absl::Now();
  changes_applied_ += std::max<int64_t>(1, static_cast<int64_t>(changes.size()));
  FreezeLaggards();
  if (state_changes_ >= settings_.growing_rows_max) {
    checkpoint_due_ = true;
    Wake();
  }
  Publish();
  return absl::OkStatus();
}

absl::Status SegmentIndex::ApplyAdd(uint64_t sequence, const RowChange& change) {
  const auto it = generations_.find(change.generation);
  if (it == generations_.end()) return absl::OkStatus();
  if (sequence > it->second.floor) {
    LC_RETURN_IF_ERROR(AppendRow(change.generation, it->second, change, sequence, /*recovered=*/false));
  } else if (!Find(it->second, change.internal_id)) {
    return absl::OkStatus();  // The row went since, its generation with it: what is not there supersedes nothing.
  }
  // Also where files hold the change as of the older one: its states may have been found anew since, without rows that
  // only a replay brings back (a segment that was rebuilt, a generation between the two that is gone).
  for (const uint32_t number : change.supersedes) {
    const auto older = generations_.find(number);
    if (number >= change.generation || older == generations_.end()) continue;
    Supersede(older->second, change.internal_id, change.generation, sequence);
  }
  return absl::OkStatus();
}

void SegmentIndex::Supersede(Generation& older, uint64_t internal_id, uint32_t by, uint64_t sequence) {
  const std::optional<Place> place = Find(older, internal_id);
  if (!place) return;
  const uint32_t state = place->segment->states().Get(static_cast<size_t>(place->row));
  SetState(older, *place, state == kLive ? by : std::min(state, by), sequence);
}

absl::Status SegmentIndex::AppendRow(uint32_t number, Generation& generation, const RowChange& change,
                                     uint64_t sequence, bool recovered) {
  if (const std::optional<Place> old = Find(generation, change.internal_id)) {
    const Segment& segment = *old->segment;
    const std::span<const float> z = segment.row(old->row);
    const bool same = std::memcmp(z.data(), change.z.data(), z.size_bytes()) == 0 &&
                      segment.block().uncertainty[old->row] == change.uncertainty;
    // A row that is there already: a repeated write, or a replay over recovered rows.
    if (recovered || (same && segment.states().Get(static_cast<size_t>(old->row)) == kLive)) return absl::OkStatus();
    SetState(generation, *old, kDeleted, sequence);
  }
  if (generation.active == nullptr) {
    LC_ASSIGN_OR_RETURN(generation.active,
                        GrowingSegment::Make(next_segment_id_, number, generation.space,
                                             GrowingRowsMax(generation.space), CodesOfGrowing(generation.space)));
    ++next_segment_id_;
    generation.active_since = changes_applied_;
  }
  if (recovered) generation.active->set_recovered();
  generation.active->Append(change.internal_id, change.z, change.uncertainty, SupersededBy(number, change.internal_id),
                            sequence);
  if (leaving_ && number >= leaving_->generation) leaving_->written.insert(change.internal_id);
  generation.touched = true;
  if (generation.active->full()) Freeze(generation);
  return absl::OkStatus();
}

void SegmentIndex::ApplyDelete(uint64_t sequence, uint64_t internal_id) {
  for (auto& [number, generation] : generations_) {
    if (sequence <= generation.floor) continue;
    if (!generation.damaged.empty()) generation.gone.insert(internal_id);
    if (const std::optional<Place> place = Find(generation, internal_id)) {
      SetState(generation, *place, kDeleted, sequence);
    }
  }
}

void SegmentIndex::SetState(Generation& generation, const Place& place, uint32_t state, uint64_t sequence) {
  if (!place.segment->SetState(place.row, state, sequence)) return;
  generation.touched = true;
  ++state_changes_;
  const double deleted = static_cast<double>(place.segment->counts().Of(kDeleted));
  if (deleted > settings_.tombstones_share_max * static_cast<double>(place.segment->rows())) Wake();
}

uint32_t SegmentIndex::SupersededBy(uint32_t generation, uint64_t internal_id, uint32_t except) const {
  for (auto it = generations_.upper_bound(generation); it != generations_.end(); ++it) {
    if (it->first != except && Find(it->second, internal_id)) return it->first;
  }
  return kLive;
}

std::optional<SegmentIndex::Place> SegmentIndex::Find(const Generation& generation, uint64_t internal_id) {
  const auto look = [internal_id](const auto& segment) -> std::optional<Place> {
    const std::optional<int64_t> row = segment->Find(internal_id);
    if (!row) return std::nullopt;
    return Place{segment.get(), *row};
  };
  if (generation.active != nullptr) {
    if (const auto place = look(generation.active)) return place;
  }
  for (const auto& segment : generation.frozen) {
    if (const auto place = look(segment)) return place;
  }
  for (const auto& segment : generation.sealed) {
    if (const auto place = look(segment)) return place;
  }
  return std::nullopt;
}

void SegmentIndex::Freeze(Generation& generation) {
  if (generation.active == nullptr) return;
  generation.frozen.push_back(std::move(generation.active));
  generation.active = nullptr;
  Wake();
}

void SegmentIndex::FreezeLaggards() {
  for (auto& [number, generation] : generations_) {
    if (changes_applied_ - generation.active_since > kLagSegments * settings_.growing_rows_max) Freeze(generation);
  }
}

int64_t SegmentIndex::AllRows() const {
  int64_t rows = 0;
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.sealed) rows += segment->rows();
    for (const auto& segment : generation.frozen) rows += segment->rows();
    if (generation.active != nullptr) rows += generation.active->rows();
  }
  return rows;
}

KindChoice SegmentIndex::ChoiceOf(const Space& space, int64_t rows, const SealedSegment* now, int64_t all_rows) const {
  ChoiceInput input{space.dimension, rows, all_rows, limits_.memory_bytes_max};
  input.is_ivf = now != nullptr && now->lists() != nullptr && !now->provisional();
  input.is_pq = now != nullptr && now->pq() != nullptr;
  return Choose(settings_, input);
}

bool SegmentIndex::Outgrown(const SealedSegment& segment, int64_t all_rows) const {
  const KindChoice choice = ChoiceOf(segment.space(), segment.rows(), &segment, all_rows);
  return (settings_.kind == SealedKind::kAuto && segment.kind() != SealedKindName(choice.kind)) ||
         (settings_.codes == RowCodes::kAuto && segment.codes_name() != RowCodesName(choice.codes));
}

void SegmentIndex::Wake() {
  work_due_ = true;
  wake_.SignalAll();
}

void SegmentIndex::Publish() {
  crowded_.store(Crowded());
  for (auto& [number, generation] : generations_) {
    if (!generation.touched) continue;
    generation.touched = false;
    auto leg = std::make_shared<ViewLeg>();
    leg->space = generation.space;
    const auto pin = [&leg](const auto& segment) {
      leg->segments.push_back(
          {segment, segment->rows(), segment->bias_max(), segment->PinCounts(), segment->PinCodes()});
    };
    for (const auto& segment : generation.damaged) pin(segment);
    for (const auto& segment : generation.sealed) pin(segment);
    for (const auto& segment : generation.frozen) pin(segment);
    if (generation.active != nullptr) pin(generation.active);
    legs_[number] = std::move(leg);
  }
  auto view = std::make_shared<const SegmentView>(legs_, applied_, settings_.hnsw_ef_search, settings_.ivf_nprobe);
  absl::MutexLock lock(&view_mu_);
  view_.swap(view);
}

int64_t SegmentIndex::UnsealedBytes() const {
  int64_t bytes = 0;
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.frozen) bytes += segment->heap_bytes();
    if (generation.active != nullptr) bytes += generation.active->heap_bytes();
  }
  return bytes;
}

absl::StatusOr<bool> SegmentIndex::AwaitRoom(absl::Time deadline) {
  if (!crowded_.load()) return true;
  absl::MutexLock lock(&mu_);
  while (Crowded()) {
    if (!sealing_error_.ok()) {
      return ResourceExhausted(StrCat(UnsealedBytes(), " bytes of rows wait to be sealed, index.unsealed_bytes_max is ",
                                      limits_.unsealed_bytes_max, ", and sealing fails: ", MessageOf(sealing_error_)));
    }
    const bool building = std::any_of(generations_.begin(), generations_.end(),
                                      [](const auto& entry) { return !entry.second.frozen.empty(); });
    if (!building) {  // Active ones alone take that much: none of them may ever be full.
      for (auto& [number, generation] : generations_) Freeze(generation);
    }
    if (stopping() || absl::Now() >= deadline) return false;
    room_.WaitWithDeadline(&mu_, deadline);
  }
  return true;
}

std::shared_ptr<const IndexView> SegmentIndex::View() const {
  absl::MutexLock lock(&view_mu_);
  return view_;
}

absl::Status SegmentIndex::Flush(absl::Time deadline, const std::function<bool()>& cancelled) {
  absl::MutexLock lock(&mu_);
  for (auto& [number, generation] : generations_) Freeze(generation);
  checkpoint_due_ = true;
  const uint64_t ticket = ++flush_requested_;
  hurrying_.store(true);
  Wake();
  while (flush_done_ < ticket) {
    if (cancelled && cancelled()) {
      return MakeStatus(absl::StatusCode::kCancelled, "flush: cancelled by the caller; the work goes on");
    }
    if (absl::Now() >= deadline) return DeadlineExceeded("flush: ran past its deadline; the work goes on");
    flushed_.WaitWithDeadline(&mu_, cancelled ? std::min(deadline, absl::Now() + kCancelPoll) : deadline);
  }
  return flush_error_;
}

absl::Status SegmentIndex::Reconfigure(const IndexSettings& settings, bool rebuild_now) {
  LC_RETURN_IF_ERROR(settings.Validate());
  absl::MutexLock lock(&mu_);
  settings_ = settings;
  if (rebuild_now) {
    ++rebuilds_asked_;
    for (auto& [number, generation] : generations_) {
      for (const auto& segment : generation.sealed) segment->set_stale();
    }
  }
  Publish();
  Wake();
  return absl::OkStatus();
}

IndexStats SegmentIndex::Stats() const {
  IndexStats stats;
  absl::MutexLock lock(&mu_);
  uint64_t sealed = applied_;
  for (const auto& [number, generation] : generations_) {
    const auto add = [&](const Segment& segment) {
      const int64_t mapped = segment.mapped_bytes(), heap = segment.heap_bytes();
      stats.mapped_bytes += mapped;
      stats.heap_bytes += heap;
      stats.segments.push_back({segment.generation(), segment.id(), std::string(segment.kind()),
                                std::string(segment.codes_name()), segment.rows(), segment.counts().Of(kDeleted),
                                mapped + heap});
    };
    for (const auto& segment : generation.damaged) add(*segment);
    for (const auto& segment : generation.sealed) {
      add(*segment);
      stats.segments_damaged += segment->damaged();  // nobody has begun with it yet
    }
    for (const auto& segment : generation.frozen) add(*segment);
    if (generation.active != nullptr) add(*generation.active);
    stats.segments_damaged += static_cast<int64_t>(generation.damaged.size());
    sealed = std::min(sealed, generation.persisted);
  }
  const SealedSegment* largest = nullptr;
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.sealed) {
      if (largest == nullptr || segment->rows() > largest->rows()) largest = segment.get();
    }
  }
  if (largest != nullptr) stats.choice = ChoiceOf(largest->space(), largest->rows(), largest, AllRows()).reason;
  stats.sealed_sequence = sealed;
  stats.segments_unchecked = static_cast<int64_t>(unchecked_.size());
  stats.builds_running = builds_running_;
  stats.builds_total = builds_total_;
  stats.rebuilds_total = rebuilds_total_;
  stats.last_error = LastError();
  return stats;
}

}  // namespace lightcone
