#include "index/life/sealer.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "index/life/checkpoint.h"
#include "index/rows/segment_codes.h"

namespace lightcone {
namespace {

constexpr size_t kUnsealedSegmentsMax = 4;  // full growing segments of a generation while rows come from the store

// A provisional segment's kind. Lists take 3 us a row of 128 numbers, files included, where a graph takes 60 to 120,
// and a search reads a few of them.
void MakeProvisional(SegmentPlan& plan, int64_t rows) {
  constexpr double kListsMax = 512;  // Every search scores the centres of all such segments.
  plan.provisional = true;
  plan.settings.kind = rows > kScanRowsMax ? SealedKind::kIvf : SealedKind::kFlat;
  plan.settings.ivf_lists = static_cast<int>(std::min(kListsMax, std::sqrt(static_cast<double>(rows))));
  plan.settings.codes = CodesWithoutLists(plan.settings.codes);
}

}  // namespace

std::optional<BuildJob> Sealer::BeginNext() {
  state_.mu.AssertHeld();
  return builds_.BeginInTurn(turn_, [this](uint32_t number, GenerationRows& generation) {
    state_.mu.AssertHeld();
    return BeginFor(number, generation);
  });
}

std::optional<BuildJob> Sealer::BeginFor(uint32_t number, GenerationRows& generation, int64_t rows_max) {
  std::vector<BuildInput> inputs;
  int64_t waiting = 0;
  for (const auto& segment : generation.frozen) {
    inputs.push_back({.rows = segment->rows(), .deleted = segment->counts().Of(kDeleted)});
    waiting += inputs.back().rows - inputs.back().deleted;
  }
  const bool hurry = generation.frozen.size() > 1 && load_.HurryIsDue(waiting);
  if (state_.limits.unsealed_bytes_max > 0 && !generation.frozen.empty()) {
    const GrowingSegment& oldest = *generation.frozen.front();
    const int64_t row_bytes = oldest.heap_bytes() / std::max<int64_t>(1, oldest.rows());
    const int64_t share = hurry ? WriteLoad::kHurryShare : IndexState::kSealedShare;
    rows_max = std::min(rows_max, state_.limits.unsealed_bytes_max / share / std::max<int64_t>(1, row_bytes));
  }
  const size_t chosen = PlanSeal(inputs, state_.settings, rows_max);
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
  BuildJob job =
      builds_.Begin(number, generation.space, live, std::move(plan), {begin, begin + static_cast<ptrdiff_t>(chosen)});
  if (hurry && job.plan.settings.kind != SealedKind::kFlat) MakeProvisional(job.plan, live);
  return job;
}

absl::Status Sealer::Seal(const BuildJob& job) {
  BuiltSegment built = builds_.Build(job, nullptr);
  {
    absl::MutexLock lock(&state_.mu);
    LC_RETURN_IF_ERROR(builds_.Finish(job, std::move(built)));
    if (job.plan.provisional) load_.RecordProvisionalSeal();
  }
  return WriteIndexCheckpoint(state_);
}

absl::Status Sealer::SealMany(uint32_t number) {
  while (!state_.stopping()) {
    std::optional<BuildJob> job;
    {
      absl::MutexLock lock(&state_.mu);
      const auto it = state_.generations.find(number);
      if (it == state_.generations.end() || it->second.frozen.size() <= kUnsealedSegmentsMax) return absl::OkStatus();
      job = BeginFor(number, it->second);
    }
    LC_RETURN_IF_ERROR(Seal(*job));
  }
  return absl::OkStatus();
}

absl::Status Sealer::SealOfAny() {
  std::optional<BuildJob> job;
  {
    absl::MutexLock lock(&state_.mu);
    const int64_t rows_max = static_cast<int64_t>(kUnsealedSegmentsMax) * state_.settings.growing_rows_max;
    job = builds_.BeginInTurn(turn_, [this, rows_max](uint32_t number, GenerationRows& generation) {
      state_.mu.AssertHeld();
      return generation.frozen.size() > kUnsealedSegmentsMax ? BeginFor(number, generation, rows_max) : std::nullopt;
    });
  }
  return job ? Seal(*job) : absl::OkStatus();
}

}  // namespace lightcone
