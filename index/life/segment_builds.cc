#include "index/life/segment_builds.h"

#include <algorithm>
#include <utility>

#include "base/exceptions.h"
#include "base/status.h"
#include "index/rows/disk_pace.h"

namespace lightcone {
namespace {

constexpr int64_t kBytesPerNumber = 6;  // float32, and about as much again for codes, graph and ids

// Damage must not get into new files, whose checksums would call it right.
bool AnySourceDamaged(const BuildJob& job) {
  return std::any_of(job.sealed_sources.begin(), job.sealed_sources.end(),
                     [](const auto& segment) { return segment->damaged(); });
}

// Gives the rows of a new segment the states that the sources' rows have by now.
void CopyStates(const BuildJob& job, const std::vector<RowReference>& rows, SealedSegment& built) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowStates& states = job.sources[rows[i].source]->states();
    const uint32_t row = rows[i].row, by = states.SupersededBy(row);
    const int64_t to = static_cast<int64_t>(i);
    if (by != kLive) built.SetState(to, by, states.SupersededAt(row));
    if (states.Get(row) == kDeleted) built.SetState(to, kDeleted, states.DeletedAt(row));
  }
}

}  // namespace

BuildJob SegmentBuilds::Begin(uint32_t number, const Space& space, int64_t live, SegmentPlan plan,
                              std::vector<std::shared_ptr<Segment>> sources) {
  state_.mu.AssertHeld();
  BuildJob job;
  job.generation = number;
  job.rebuild = state_.rebuilds_asked;
  job.plan = std::move(plan);
  job.plan.id = state_.next_segment_id++;
  job.plan.settings = state_.settings;
  const KindChoice choice = state_.ChoiceOf(space, live, nullptr, state_.AllRows());
  job.plan.settings.kind = choice.kind;
  job.plan.settings.codes = choice.codes;
  job.sources = std::move(sources);
  for (const auto& segment : job.sources) job.rows_of.push_back(segment->rows());
  return job;
}

std::optional<BuildJob> SegmentBuilds::BeginInTurn(
    uint32_t& turn, absl::FunctionRef<std::optional<BuildJob>(uint32_t, GenerationRows&)> begin) {
  state_.mu.AssertHeld();
  auto it = state_.generations.upper_bound(turn);
  for (size_t i = 0; i < state_.generations.size(); ++i, ++it) {
    if (it == state_.generations.end()) it = state_.generations.begin();
    if (std::optional<BuildJob> job = begin(it->first, it->second)) {
      turn = it->first;
      return job;
    }
  }
  return std::nullopt;
}

BuiltSegment SegmentBuilds::Build(const BuildJob& job, const std::atomic<bool>* unwanted) {
  {
    absl::MutexLock lock(&state_.mu);
    ++state_.builds.running;
  }
  BuiltSegment built;
  try {
    BuildControl control;
    control.stop = [this, unwanted] { return state_.stopping() || (unwanted != nullptr && unwanted->load()); };
    const bool hurry = job.plan.provisional;
    control.pace = [this, hurry, &control](size_t bytes) {
      AwaitBuildPace(bytes, state_.limits.build_bytes_per_second_max,
                     [&] { return control.stop() || hurry || state_.crowded.load(); });
    };
    for (const auto& segment : job.sealed_sources) {
      built.status = checks_.CheckSource(*segment, control.stop);
      if (!built.status.ok()) return built;
    }
    built.rows = GatherRows(job.sources, job.rows_of);
    if (built.rows.empty() || AnySourceDamaged(job)) return built;
    if (state_.limits.disk_room) {
      const auto rows = static_cast<int64_t>(built.rows.size());
      built.status = state_.limits.disk_room(rows * job.sources.front()->space().dimension * kBytesPerNumber);
      if (!built.status.ok()) return built;
    }
    auto written = WriteSegment(state_.SegmentFolder(job.plan.id), job.plan, job.sources, built.rows, control);
    built.status = written.status();
    if (written.ok()) built.segment = std::move(*written);
  } catch (...) {
    built.status = StatusOfException();
  }
  return built;
}

absl::Status SegmentBuilds::Finish(const BuildJob& job, BuiltSegment built) {
  state_.mu.AssertHeld();
  --state_.builds.running;
  if (AnySourceDamaged(job)) {  // The repair takes the source, and what is left of the job is planned again.
    if (built.segment != nullptr) state_.garbage.push_back(built.segment->folder());
    return absl::OkStatus();
  }
  if (!built.status.ok()) return state_.generations.contains(job.generation) ? built.status : absl::OkStatus();
  ++state_.builds.total;
  Install(job, built.rows, std::move(built.segment));
  return absl::OkStatus();
}

void SegmentBuilds::Install(const BuildJob& job, const std::vector<RowReference>& rows,
                            std::shared_ptr<SealedSegment> built) {
  const auto is_source = [&job](const std::shared_ptr<Segment>& segment) {
    return std::find(job.sources.begin(), job.sources.end(), segment) != job.sources.end();
  };
  const auto it = state_.generations.find(job.generation);
  const bool there =
      it != state_.generations.end() && (std::any_of(it->second.frozen.begin(), it->second.frozen.end(), is_source) ||
                                         std::any_of(it->second.sealed.begin(), it->second.sealed.end(), is_source));
  state_.checkpoint_due = true;
  state_.flush.current.written = false;
  if (!there) {  // The generation was dropped meanwhile.
    if (built != nullptr) state_.garbage.push_back(built->folder());
    return;
  }
  GenerationRows& generation = it->second;
  if (built != nullptr) {
    CopyStates(job, rows, *built);
    built->set_dirty(true);                                        // It has no state file yet.
    if (job.rebuild != state_.rebuilds_asked) built->set_stale();  // Other settings came while it was built.
    built->set_lasting();
    generation.sealed.push_back(std::move(built));
  }
  for (const auto& segment : generation.sealed) {
    if (is_source(segment)) state_.garbage.push_back(segment->folder());
  }
  std::erase_if(state_.unchecked, is_source);
  std::erase_if(generation.sealed, is_source);
  std::erase_if(generation.frozen, is_source);
  if (job.sealed_sources.empty()) {
    state_.builds.sealing_error = absl::OkStatus();
    state_.room.SignalAll();
  }
  generation.touched = true;
  state_.Publish();
}

}  // namespace lightcone
