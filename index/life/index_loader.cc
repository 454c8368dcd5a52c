#include "index/life/index_loader.h"

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

// Whether an error of opening a segment says that its files are not what was written. Other errors (no memory, no
// descriptor, no permission) pass, and the files are good.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
}

// The segment in a folder, if it is the one that the checkpoint means.
absl::StatusOr<std::shared_ptr<SealedSegment>> OpenListed(const std::string& folder, uint64_t id, uint32_t number,
                                                          const Space& space) {
  LC_ASSIGN_OR_RETURN(std::shared_ptr<SealedSegment> segment, SealedSegment::Open(folder, /*with_states=*/true));
  if (segment->id() == id && segment->generation() == number && segment->space() == space) return segment;
  return DataLoss(StrCat("'", folder, "' holds another segment"));
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> IndexLoader::Load(const std::vector<std::pair<uint32_t, Space>>& generations) {
  LC_RETURN_IF_ERROR(MakeFolders(StrCat(state_.folder, "/segments")));
  absl::MutexLock lock(&state_.mu);
  for (const auto& [number, space] : generations) state_.generations[number].space = space;
  LC_ASSIGN_OR_RETURN(const IndexCheckpoint checkpoint, ReadCheckpoint());
  state_.newest_in_files = checkpoint.newest_sequence;
  state_.next_segment_id = checkpoint.next_segment_id;
  std::vector<uint32_t> incomplete;
  uint64_t replay_after = checkpoint.newest_sequence;
  for (auto& [number, generation] : state_.generations) {
    const auto entry = std::find_if(checkpoint.generations.begin(), checkpoint.generations.end(),
                                    [n = number](const auto& g) { return g.generation == n; });
    const bool listed = entry != checkpoint.generations.end() && entry->space == generation.space;
    bool complete = !listed && state_.source == nullptr;
    if (listed) {
      LC_ASSIGN_OR_RETURN(complete, LoadGeneration(number, generation, *entry));
    }
    if (!complete && state_.source == nullptr) {
      return DataLoss(
          StrCat("index '", state_.folder, "': generation ", number, " is damaged and there is no store to ask"));
    }
    if (!complete) incomplete.push_back(number);
    generation.recovering = !complete;
    replay_after = std::min(replay_after, generation.floor);
  }
  LC_RETURN_IF_ERROR(CheckMemory());
  LC_RETURN_IF_ERROR(RemoveLeftovers());
  state_.applied = replay_after;
  ReassessSuperseded();
  return incomplete;
}

absl::StatusOr<IndexCheckpoint> IndexLoader::ReadCheckpoint() {
  const absl::StatusOr<std::string> text = ReadFile(StrCat(state_.folder, "/index.json"), int64_t{1} << 24);
  if (absl::IsNotFound(text.status())) return IndexCheckpoint();
  absl::StatusOr<IndexCheckpoint> checkpoint = text.ok() ? DecodeIndexCheckpoint(*text) : text.status();
  if (checkpoint.ok()) return checkpoint;
  if (!text.ok() && !absl::IsDataLoss(text.status())) return Annotate(text.status(), "open index");
  // The store still has everything: the index starts over from it.
  spdlog::error("index '{}': {}; rebuilding from the store", state_.folder, MessageOf(checkpoint.status()));
  ++state_.builds.rebuilt;
  return IndexCheckpoint();
}

absl::StatusOr<bool> IndexLoader::LoadGeneration(uint32_t number, GenerationRows& generation,
                                                 const IndexCheckpoint::Generation& entry) {
  generation.floor = generation.persisted = entry.sequence;
  bool complete = entry.complete;
  for (const uint64_t id : entry.segments) {
    absl::StatusOr<std::shared_ptr<SealedSegment>> opened =
        OpenListed(state_.SegmentFolder(id), id, number, generation.space);
    if (opened.ok()) {
      SealedSegment& segment = **opened;
      // State files are written before the checkpoint: a crash between the two leaves them ahead of it.
      state_.newest_in_files = std::max(state_.newest_in_files, segment.sequence_of_states());
      segment.set_lasting();
      if (segment.manifest().rebuild < state_.settings.rebuild) segment.set_stale();  // A stop cut the rebuild short.
      if (segment.stale() || segment.manifest().provisional) state_.Wake();
      state_.unchecked.push_back(*opened);
      generation.sealed.push_back(std::move(*opened));
      continue;
    }
    if (!IsDamage(opened.status())) {
      return Annotate(opened.status(), StrCat("open segment ", id, " of index '", state_.folder, "'"));
    }
    spdlog::error("index '{}': segment {}: {}; rebuilding it from the store", state_.folder, id,
                  MessageOf(opened.status()));
    ++state_.builds.rebuilt;
    complete = false;
  }
  return complete;
}

absl::Status IndexLoader::CheckMemory() const {
  const int64_t allowed = state_.limits.memory_bytes_max;
  if (allowed == 0) return absl::OkStatus();
  const int64_t all_rows = state_.AllRows();
  int64_t needed = 0;
  for (const auto& [number, generation] : state_.generations) {
    for (const auto& segment : generation.sealed) {
      const KindChoice choice = state_.ChoiceOf(segment->space(), segment->rows(), segment.get(), all_rows);
      needed += HotBytes(state_.settings, choice.kind, choice.codes, segment->space().dimension, segment->rows());
    }
  }
  if (needed <= allowed) return absl::OkStatus();
  absl::Status status = ResourceExhausted(StrCat("its index of ", all_rows, " rows needs ", needed,
                                                 " bytes of memory; index.memory_bytes_max allows ", allowed));
  status.SetPayload(ToAbsl(kMemoryLimitUrl), absl::Cord());
  return status;
}

absl::Status IndexLoader::RemoveLeftovers() {
  std::vector<std::string> kept;
  for (const auto& [number, generation] : state_.generations) {
    for (const auto& segment : generation.sealed) kept.push_back(segment->folder());
  }
  std::error_code error;
  std::vector<std::string> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(state_.folder + "/segments", error)) {
    const std::string path = entry.path().string();
    // Ids are never used twice, even where the checkpoint that counted them was lost.
    const std::string name = entry.path().stem().string();
    if (!name.empty() && name.size() < 19 &&
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      state_.next_segment_id = std::max<uint64_t>(state_.next_segment_id, std::stoull(name) + 1);
    }
    if (std::find(kept.begin(), kept.end(), path) == kept.end()) leftovers.push_back(path);
  }
  if (error) return ErrnoStatus(error.value(), "list", state_.folder + "/segments");
  for (const std::string& path : leftovers) {
    std::filesystem::remove_all(path, error);
    // A bad inode must not keep an index shut that is whole without it, or is about to be rebuilt.
    if (error) {
      spdlog::error("index '{}': {}; it is left there", state_.folder,
                    MessageOf(ErrnoStatus(error.value(), "remove", path)));
    }
  }
  return absl::OkStatus();
}

void IndexLoader::ReassessSuperseded() {
  for (auto& [number, generation] : state_.generations) {
    generation.AnySegment([&, n = number, &g = generation](Segment& segment) {
      state_.mu.AssertHeld();
      std::vector<uint32_t> gone;
      for (const auto& [state, count] : segment.counts().by_state) {
        if (state != kDeleted && count > 0 && !state_.generations.contains(state)) gone.push_back(state);
      }
      for (int64_t row = 0; !gone.empty() && row < segment.rows(); ++row) {
        const uint32_t state = segment.states().Get(static_cast<size_t>(row));
        if (std::find(gone.begin(), gone.end(), state) == gone.end()) continue;
        state_.SetState(g, {&segment, row}, state_.SupersededBy(n, segment.block().ids[row]), state_.applied);
      }
      return false;
    });
  }
}

}  // namespace lightcone
