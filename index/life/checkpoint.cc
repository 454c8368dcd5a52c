#include "index/life/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/exceptions.h"
#include "base/files.h"
#include "base/status.h"
#include "index/rows/manifest.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

// The part of the index that a checkpoint writes and removes.
struct Collected {
  IndexCheckpoint checkpoint;
  std::vector<std::pair<std::shared_ptr<SealedSegment>, std::vector<uint32_t>>> states;
  std::vector<std::string> garbage;
};

uint64_t SequenceInFiles(const GenerationRows& generation, uint64_t applied) {
  uint64_t sequence = std::max(generation.floor, applied);
  for (const auto& segment : generation.frozen) sequence = std::min(sequence, segment->first_sequence() - 1);
  if (generation.active != nullptr) sequence = std::min(sequence, generation.active->first_sequence() - 1);
  return sequence;
}

// Whether files hold all rows of the generation that a rebuild takes from the store.
bool IsComplete(const GenerationRows& generation) {
  const auto recovered = [](const auto& segment) { return segment != nullptr && segment->recovered(); };
  return !generation.recovering && generation.damaged.empty() && !recovered(generation.active) &&
         std::none_of(generation.frozen.begin(), generation.frozen.end(), recovered);
}

void Collect(IndexState& state, Collected& collected) {
  absl::MutexLock lock(&state.mu);
  state.checkpoint_due = false;
  state.state_changes = 0;
  collected.garbage = state.garbage;
  collected.checkpoint.next_segment_id = state.next_segment_id;
  collected.checkpoint.newest_sequence = std::max(state.applied, state.newest_in_files);
  for (const auto& [number, generation] : state.generations) {
    IndexCheckpoint::Generation entry{
        number, generation.space, SequenceInFiles(generation, state.applied), IsComplete(generation), {}};
    for (const auto& segment : generation.sealed) {
      entry.segments.push_back(segment->id());
      if (!segment->dirty()) continue;
      collected.states.emplace_back(segment, segment->CopyStates());
      segment->set_dirty(false);
    }
    collected.checkpoint.generations.push_back(std::move(entry));
  }
}

absl::Status WriteFiles(const std::string& folder, Collected& collected) {
  for (auto& [segment, row_states] : collected.states) {
    LC_RETURN_IF_ERROR(
        WriteFileAtomically(StrCat(segment->folder(), "/", kStatesFile),
                            EncodeStates({collected.checkpoint.newest_sequence, std::move(row_states)})));
  }
  return WriteFileAtomically(folder + "/index.json", EncodeIndexCheckpoint(collected.checkpoint));
}

}  // namespace

absl::Status WriteIndexCheckpoint(IndexState& state) {
  Collected collected;
  absl::Status status;
  try {
    Collect(state, collected);
    status = WriteFiles(state.folder, collected);
  } catch (...) {  // Out of memory: as with a full disk, what was collected is dirty still.
    status = StatusOfException();
  }
  if (status.ok()) {
    // Views that still use a deleted segment keep its mapping: the last of them frees the space.
    for (const std::string& folder : collected.garbage) {
      std::error_code error;
      std::filesystem::remove_all(folder, error);
      if (error) spdlog::warn("index '{}': cannot remove '{}': {}", state.folder, folder, error.message());
    }
  }
  absl::MutexLock lock(&state.mu);
  if (!status.ok()) {
    state.checkpoint_due = true;
    for (auto& [segment, unused] : collected.states) segment->set_dirty(true);
    return Annotate(status, "write checkpoint");
  }
  for (const IndexCheckpoint::Generation& entry : collected.checkpoint.generations) {
    const auto it = state.generations.find(entry.generation);
    if (it != state.generations.end()) it->second.persisted = std::max(it->second.persisted, entry.sequence);
  }
  for (const std::string& folder : collected.garbage) std::erase(state.garbage, folder);
  state.flush.current.written = true;
  return absl::OkStatus();
}

}  // namespace lightcone
