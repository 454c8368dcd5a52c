#include "index/life/row_writer.h"

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "base/status.h"

namespace lightcone {
namespace {

// An active segment keeps the change log from its first row on, and every start replays that log. So the segment is
// sealed as it is once this many growing segments' rows have changed since: that leaves few small segments.
constexpr int64_t kLagSegments = 4;

}  // namespace

absl::Status CheckGenerationNumber(uint32_t generation) {
  if (generation != kLive && generation != kDeleted) return absl::OkStatus();
  return InvalidField("generation", StrCat(generation), "1 .. 4294967294");
}

absl::Status RowWriter::AddGeneration(uint32_t generation, const Space& space) {
  LC_RETURN_IF_ERROR(space.Validate());
  LC_RETURN_IF_ERROR(CheckGenerationNumber(generation));
  absl::MutexLock lock(&state_.mu);
  const auto [it, added] = state_.generations.try_emplace(generation);
  if (!added) {
    if (it->second.space == Normalized(space)) return absl::OkStatus();
    return AlreadyExists(StrCat("the index has generation ", generation, " with another space"));
  }
  it->second.space = Normalized(space);
  it->second.floor = it->second.persisted = state_.applied;  // It has no rows, so all changes so far are "in files".
  state_.checkpoint_due = true;
  state_.Publish();
  state_.Wake();
  return absl::OkStatus();
}

absl::Status RowWriter::Apply(uint64_t sequence, std::span<const RowChange> changes) {
  absl::MutexLock lock(&state_.mu);
  if (sequence <= state_.applied) return absl::OkStatus();
  LC_RETURN_IF_ERROR(CheckChanges(sequence, changes));
  for (const RowChange& change : changes) {
    if (change.kind == RowChange::Kind::kDelete) {
      ApplyDelete(sequence, change.internal_id);
    } else {
      LC_RETURN_IF_ERROR(ApplyAdd(sequence, change));
    }
  }
  state_.applied = sequence;
  state_.last_apply = absl::Now();
  state_.changes_applied += std::max<int64_t>(1, static_cast<int64_t>(changes.size()));
  FreezeLaggards();
  if (state_.state_changes >= state_.settings.growing_rows_max) {
    state_.checkpoint_due = true;
    state_.Wake();
  }
  state_.Publish();
  return absl::OkStatus();
}

absl::Status RowWriter::CheckChanges(uint64_t sequence, std::span<const RowChange> changes) const {
  for (const RowChange& change : changes) {
    if (change.kind != RowChange::Kind::kAdd) continue;
    const auto it = state_.generations.find(change.generation);
    if (it == state_.generations.end()) continue;  // Dropped since: an old entry of the change log.
    if (sequence <= it->second.floor) continue;    // Files hold it.
    LC_RETURN_IF_ERROR(CheckVector(it->second.space, change.z, "vector"));
  }
  return absl::OkStatus();
}

absl::Status RowWriter::ApplyAdd(uint64_t sequence, const RowChange& change) {
  const auto it = state_.generations.find(change.generation);
  if (it == state_.generations.end()) return absl::OkStatus();
  if (sequence > it->second.floor) {
    LC_RETURN_IF_ERROR(AppendRow(it->second, change, sequence, /*recovered=*/false));
  } else if (!it->second.Find(change.internal_id)) {
    return absl::OkStatus();  // The row and its generation went since: a row that is not there supersedes nothing.
  }
  // Also where files hold the change: older states may have been found anew without rows that only a replay brings back
  // (a segment that was rebuilt, a dropped generation between the two).
  for (const uint32_t number : change.supersedes) {
    const auto older = state_.generations.find(number);
    if (number >= change.generation || older == state_.generations.end()) continue;
    Supersede(older->second, change.internal_id, change.generation, sequence);
  }
  return absl::OkStatus();
}

void RowWriter::Supersede(GenerationRows& older, uint64_t internal_id, uint32_t by, uint64_t sequence) {
  const std::optional<RowPlace> place = older.Find(internal_id);
  if (!place) return;
  const uint32_t state = place->segment->states().Get(static_cast<size_t>(place->row));
  state_.SetState(older, *place, state == kLive ? by : std::min(state, by), sequence);
}

absl::Status RowWriter::AppendRow(GenerationRows& generation, const RowChange& change, uint64_t sequence,
                                  bool recovered) {
  if (const std::optional<RowPlace> old = generation.Find(change.internal_id)) {
    const Segment& segment = *old->segment;
    const std::span<const float> z = segment.row(old->row);
    const bool same = std::memcmp(z.data(), change.z.data(), z.size_bytes()) == 0 &&
                      segment.block().uncertainty[old->row] == change.uncertainty;
    // The row is there already: a repeated write, or a replay over recovered rows.
    if (recovered || (same && segment.states().Get(static_cast<size_t>(old->row)) == kLive)) return absl::OkStatus();
    state_.SetState(generation, *old, kDeleted, sequence);
  }
  if (generation.active == nullptr) {
    LC_ASSIGN_OR_RETURN(
        generation.active,
        GrowingSegment::Make(state_.next_segment_id, change.generation, generation.space,
                             state_.GrowingRowsMax(generation.space), state_.CodesOfGrowing(generation.space)));
    ++state_.next_segment_id;
    generation.active_since = state_.changes_applied;
  }
  if (recovered) generation.active->set_recovered();
  generation.active->Append(change.internal_id, change.z, change.uncertainty,
                            state_.SupersededBy(change.generation, change.internal_id), sequence);
  drop_.RecordWrite(change.generation, change.internal_id);
  generation.touched = true;
  if (generation.active->full()) state_.Freeze(generation);
  return absl::OkStatus();
}

absl::Status RowWriter::AppendRecovered(const RowChange& change) {
  state_.mu.AssertHeld();
  const auto it = state_.generations.find(change.generation);
  if (it == state_.generations.end()) return NotFound("the generation has been dropped");
  GenerationRows& generation = it->second;
  // The store was read a while ago: rows that were deleted since must not come back.
  if (generation.gone.contains(change.internal_id) || generation.Find(change.internal_id)) return absl::OkStatus();
  // Above `applied`, so that the checkpoint's sequence stays until the rows are sealed.
  const uint64_t sequence = std::max(generation.floor, state_.applied) + 1;
  LC_RETURN_IF_ERROR(AppendRow(generation, change, sequence, /*recovered=*/true));
  for (auto older = state_.generations.begin(); older != it; ++older) {
    Supersede(older->second, change.internal_id, change.generation, state_.applied);
  }
  return absl::OkStatus();
}

void RowWriter::ApplyDelete(uint64_t sequence, uint64_t internal_id) {
  for (auto& [number, generation] : state_.generations) {
    if (sequence <= generation.floor) continue;
    if (!generation.damaged.empty()) generation.gone.insert(internal_id);
    if (const std::optional<RowPlace> place = generation.Find(internal_id)) {
      state_.SetState(generation, *place, kDeleted, sequence);
    }
  }
}

void RowWriter::FreezeLaggards() {
  for (auto& [number, generation] : state_.generations) {
    const int64_t lag = state_.changes_applied - generation.active_since;
    if (lag > kLagSegments * state_.settings.growing_rows_max) state_.Freeze(generation);
  }
}

}  // namespace lightcone
