#include "index/life/index_state.h"

#include "base/status.h"
#include "index/rows/segment_codes.h"

namespace lightcone {

std::optional<RowPlace> GenerationRows::Find(uint64_t internal_id) const {
  std::optional<RowPlace> place;
  AnySegment([&](Segment& segment) {
    const std::optional<int64_t> row = segment.Find(internal_id);
    if (row) place = {&segment, *row};
    return row.has_value();
  });
  return place;
}

int64_t GenerationRows::FrozenRows() const {
  int64_t rows = 0;
  for (const auto& segment : frozen) rows += segment->rows();
  return rows;
}

int64_t GenerationRows::FrozenBytes() const {
  int64_t bytes = 0;
  for (const auto& segment : frozen) bytes += segment->heap_bytes();
  return bytes;
}

void IndexState::Freeze(GenerationRows& generation) {
  if (generation.active == nullptr) return;
  generation.frozen.push_back(std::move(generation.active));
  generation.active = nullptr;
  Wake();
}

void IndexState::SetState(GenerationRows& generation, const RowPlace& place, uint32_t state, uint64_t sequence) {
  if (!place.segment->SetState(place.row, state, sequence)) return;
  generation.touched = true;
  ++state_changes;
  const double deleted = static_cast<double>(place.segment->counts().Of(kDeleted));
  if (deleted > settings.tombstones_share_max * static_cast<double>(place.segment->rows())) Wake();
}

uint32_t IndexState::SupersededBy(uint32_t generation, uint64_t internal_id, uint32_t except) const {
  for (auto it = generations.upper_bound(generation); it != generations.end(); ++it) {
    if (it->first != except && it->second.Find(internal_id)) return it->first;
  }
  return kLive;
}

int64_t IndexState::AllRows() const {
  int64_t rows = 0;
  for (const auto& [number, generation] : generations) {
    generation.AnySegment([&rows](const Segment& segment) {
      rows += segment.rows();
      return false;
    });
  }
  return rows;
}

int64_t IndexState::UnsealedBytes() const {
  int64_t bytes = 0;
  for (const auto& [number, generation] : generations) {
    bytes += generation.FrozenBytes();
    if (generation.active != nullptr) bytes += generation.active->heap_bytes();
  }
  return bytes;
}

int64_t IndexState::GrowingRowsMax(const Space& space) const {
  constexpr int64_t kRowsMin = 1'000;  // so few rows are no work, whatever the limit
  if (limits.unsealed_bytes_max == 0) return settings.growing_rows_max;
  const int64_t row_bytes = GrowingSegment::RowBytes(space, CodesOfGrowing(space));
  return std::min(settings.growing_rows_max, std::max(kRowsMin, limits.unsealed_bytes_max / kSealedShare / row_bytes));
}

std::optional<CodeKind> IndexState::CodesOfGrowing(const Space& space) const {
  return CodeKindOf(CodesWithoutLists(settings.codes), space.dimension);
}

KindChoice IndexState::ChoiceOf(const Space& space, int64_t rows, const SealedSegment* now, int64_t all_rows) const {
  ChoiceInput input{space.dimension, rows, all_rows, limits.memory_bytes_max};
  input.is_ivf = now != nullptr && now->lists() != nullptr && !now->provisional();
  input.is_pq = now != nullptr && now->pq() != nullptr;
  return Choose(settings, input);
}

void IndexState::Publish() {
  crowded.store(Crowded());
  for (auto& [number, generation] : generations) {
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
    view.SetLeg(number, std::move(leg));
  }
  view.Publish(applied, settings.hnsw_ef_search, settings.ivf_nprobe);
}

void IndexState::Wake() {
  builder.due = true;
  Nudge();
}

std::string IndexState::SegmentFolder(uint64_t id) const { return StrCat(folder, "/segments/", id); }

}  // namespace lightcone
