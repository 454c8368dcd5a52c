// The checkpoint: which segments count, and up to which change they hold everything.
#include <algorithm>
#include <filesystem>

#include "base/exceptions.h"
#include "base/files.h"
#include "base/status.h"
#include "index/life/segment_index.h"
#include "spdlog/spdlog.h"

namespace lightcone {

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
