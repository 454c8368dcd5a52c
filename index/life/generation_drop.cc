#include "index/life/generation_drop.h"

#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {
namespace {

// Rows that are looked up between two releases of the lock, and how long others then have it.
constexpr int64_t kAssessedAtOnce = 4'096;
constexpr absl::Duration kBreath = absl::Microseconds(100);

absl::Status UnknownGeneration(uint32_t generation) {
  return NotFound(StrCat("the index has no generation ", generation));
}

}  // namespace

absl::Status GenerationDrop::Prepare(uint32_t generation, const std::function<bool()>& cancelled) {
  {
    absl::MutexLock lock(&state_.mu);
    if (!state_.generations.contains(generation)) return UnknownGeneration(generation);
    leaving_ = Leaving{generation, {}, {}};
  }
  while (!cancelled()) {
    {
      absl::MutexLock lock(&state_.mu);
      if (!AssessSome()) return absl::OkStatus();
    }
    absl::SleepFor(kBreath);
  }
  absl::MutexLock lock(&state_.mu);
  leaving_.reset();
  return absl::CancelledError(StrCat("generation ", generation, " stays: dropping it was interrupted"));
}

absl::Status GenerationDrop::Drop(uint32_t generation) {
  absl::MutexLock lock(&state_.mu);
  if (!state_.generations.contains(generation)) return UnknownGeneration(generation);
  if (!leaving_ || leaving_->generation != generation) leaving_ = Leaving{generation, {}, {}};
  // The lock that saw no row left is held until the end: a segment that came in between would not be assessed.
  while (AssessSome()) {
    state_.mu.Unlock();
    absl::SleepFor(kBreath);
    state_.mu.Lock();
  }
  const auto it = state_.generations.find(generation);
  for (const auto& segment : it->second.sealed) state_.garbage.push_back(segment->folder());
  for (const auto& segment : it->second.damaged) state_.garbage.push_back(segment->folder());
  std::erase_if(state_.unchecked, [generation](const auto& segment) { return segment->generation() == generation; });
  state_.generations.erase(it);
  state_.view.RemoveLeg(generation);
  ApplyAssessed();
  leaving_.reset();
  state_.checkpoint_due = true;
  state_.Publish();
  state_.Wake();
  return absl::OkStatus();
}

void GenerationDrop::RecordWrite(uint32_t generation, uint64_t internal_id) {
  state_.mu.AssertHeld();
  if (leaving_ && generation >= leaving_->generation) leaving_->written.insert(internal_id);
}

bool GenerationDrop::AssessSegment(uint32_t number, const Segment& segment, int64_t& rows_left) {
  const uint32_t gone = leaving_->generation;
  if (segment.counts().Of(gone) == 0) return true;
  Leaving::Assessed& assessed = leaving_->segments[segment.id()];
  for (; assessed.rows < segment.rows(); ++assessed.rows) {
    if (rows_left-- == 0) return false;
    if (segment.states().Get(static_cast<size_t>(assessed.rows)) != gone) continue;
    assessed.states.emplace_back(static_cast<uint32_t>(assessed.rows),
                                 state_.SupersededBy(number, segment.block().ids[assessed.rows], gone));
  }
  return true;
}

bool GenerationDrop::AssessSome() {
  int64_t rows_left = kAssessedAtOnce;
  for (const auto& [number, generation] : state_.generations) {
    if (number >= leaving_->generation) break;
    const bool rows_remain = generation.AnySegment([&, n = number](const Segment& segment) {
      state_.mu.AssertHeld();
      return !AssessSegment(n, segment, rows_left);
    });
    if (rows_remain) return true;
  }
  return false;
}

void GenerationDrop::ApplyAssessed() {
  const uint32_t gone = leaving_->generation;
  LC_DCHECK(!state_.generations.contains(gone));
  for (auto& [number, generation] : state_.generations) {
    if (number >= gone) break;
    const auto set = [&, &g = generation](const RowPlace& place, uint32_t state) {
      state_.mu.AssertHeld();
      if (place.segment->states().Get(static_cast<size_t>(place.row)) != gone) return;
      state_.SetState(g, place, state, state_.applied);
    };
    // Items that were written meanwhile come first: their rows are not `gone` any more then, so that what was looked up
    // for them in advance has no effect.
    for (const uint64_t id : leaving_->written) {
      if (const std::optional<RowPlace> place = generation.Find(id)) set(*place, state_.SupersededBy(number, id));
    }
    generation.AnySegment([&](Segment& segment) {
      state_.mu.AssertHeld();
      const auto assessed = leaving_->segments.find(segment.id());
      if (assessed == leaving_->segments.end()) return false;
      for (const auto& [row, state] : assessed->second.states) set({&segment, row}, state);
      return false;
    });
  }
}

}  // namespace lightcone
