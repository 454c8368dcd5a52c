// How an index comes back from its folder.
#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"
#include "index/life/segment_index.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

// Whether an error of opening a segment says that its files are not what was written. Others (no memory, no descriptor,
// no permission) pass, and the files are good.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
}

}  // namespace

absl::Status SegmentIndex::Load(const std::vector<std::pair<uint32_t, Space>>& generations) {
  LC_RETURN_IF_ERROR(MakeFolders(StrCat(folder_, "/segments")));
  std::vector<uint32_t> incomplete;
  LC_RETURN_IF_ERROR(LoadFiles(generations, incomplete));
  for (const uint32_t number : incomplete) LC_RETURN_IF_ERROR(Recover(number));
  absl::MutexLock lock(&mu_);
  Publish();
  return absl::OkStatus();
}

absl::Status SegmentIndex::LoadFiles(const std::vector<std::pair<uint32_t, Space>>& generations,
                                     std::vector<uint32_t>& incomplete) {
  absl::MutexLock lock(&mu_);
  for (const auto& [number, space] : generations) generations_[number].space = space;

  IndexCheckpoint checkpoint;
  const absl::StatusOr<std::string> text = ReadFile(StrCat(folder_, "/index.json"), int64_t{1} << 24);
  if (text.ok()) {
    absl::StatusOr<IndexCheckpoint> decoded = DecodeIndexCheckpoint(*text);
    if (decoded.ok()) {
      checkpoint = std::move(*decoded);
    } else {
      // The store still has everything: start over from it.
      spdlog::error("index '{}': {}; rebuilding from the store", folder_, MessageOf(decoded.status()));
      ++rebuilds_total_;
    }
  } else if (absl::IsDataLoss(text.status())) {
    spdlog::error("index '{}': {}; rebuilding from the store", folder_, MessageOf(text.status()));
    ++rebuilds_total_;
  } else if (!absl::IsNotFound(text.status())) {
    return Annotate(text.status(), "open index");
  }
  loaded_newest_sequence_ = checkpoint.newest_sequence;
  LC_RETURN_IF_ERROR(LoadCheckpoint(checkpoint, incomplete));
  LC_RETURN_IF_ERROR(CheckMemory());
  LC_RETURN_IF_ERROR(RemoveLeftovers());

  replay_after_ = checkpoint.newest_sequence;
  for (const auto& [number, generation] : generations_) replay_after_ = std::min(replay_after_, generation.floor);
  applied_ = replay_after_;
  ReassessSuperseded();
  return absl::OkStatus();
}

absl::Status SegmentIndex::LoadCheckpoint(const IndexCheckpoint& checkpoint, std::vector<uint32_t>& incomplete) {
  next_segment_id_ = checkpoint.next_segment_id;
  for (auto& [number, generation] : generations_) {
    const auto entry = std::find_if(checkpoint.generations.begin(), checkpoint.generations.end(),
                                    [n = number](const auto& g) { return g.generation == n; });
    if (entry == checkpoint.generations.end() || !(entry->space == generation.space)) {
      if (source_ != nullptr) incomplete.push_back(number);
      generation.recovering = source_ != nullptr;
      continue;
    }
    generation.floor = generation.persisted = entry->sequence;
    bool complete = entry->complete;
    for (const uint64_t id : entry->segments) {
      absl::StatusOr<std::shared_ptr<SealedSegment>> segment = SealedSegment::Open(SegmentFolder(id), true);
      if (segment.ok() && ((*segment)->id() != id || (*segment)->generation() != number ||
                           !((*segment)->space() == generation.space))) {
        segment = DataLoss(StrCat("'", SegmentFolder(id), "' holds another segment"));
      }
      if (segment.ok()) {
        // State files are written before the checkpoint: a crash between the two leaves them ahead of it.
        loaded_newest_sequence_ = std::max(loaded_newest_sequence_, (*segment)->sequence_of_states());
        unchecked_.push_back(*segment);
        (*segment)->set_lasting();
        if ((*segment)->manifest().rebuild < settings_.rebuild)
          (*segment)->set_stale();  // the last run did not come so far
        if ((*segment)->stale() || (*segment)->manifest().provisional) Wake();
        generation.sealed.push_back(std::move(*segment));
        continue;
      }
      if (!IsDamage(segment.status())) {
        return Annotate(segment.status(), StrCat("open segment ", id, " of index '", folder_, "'"));
      }
      spdlog::error("index '{}': segment {}: {}; rebuilding it from the store", folder_, id,
                    MessageOf(segment.status()));
      ++rebuilds_total_;
      complete = false;
    }
    if (complete) continue;
    if (source_ == nullptr) {
      return DataLoss(StrCat("index '", folder_, "': generation ", number, " is damaged and there is no store to ask"));
    }
    incomplete.push_back(number);
    generation.recovering = true;
  }
  return absl::OkStatus();
}

absl::Status SegmentIndex::CheckMemory() const {
  if (limits_.memory_bytes_max == 0) return absl::OkStatus();
  const int64_t all_rows = AllRows();
  int64_t needed = 0;
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.sealed) {
      const KindChoice choice = ChoiceOf(segment->space(), segment->rows(), segment.get(), all_rows);
      needed += HotBytes(settings_, choice.kind, choice.codes, segment->space().dimension, segment->rows());
    }
  }
  if (needed <= limits_.memory_bytes_max) return absl::OkStatus();
  absl::Status status =
      ResourceExhausted(StrCat("its index of ", all_rows, " rows needs ", needed, " bytes of memory; ",
                               "index.memory_bytes_max allows ", limits_.memory_bytes_max));
  status.SetPayload(ToAbsl(kMemoryLimitUrl), absl::Cord());
  return status;
}

absl::Status SegmentIndex::RemoveLeftovers() {
  std::vector<std::string> kept;
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.sealed) kept.push_back(segment->folder());
  }
  std::error_code error;
  std::vector<std::string> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/segments", error)) {
    const std::string path = entry.path().string();
    // Ids are never used twice, even where the checkpoint that counted them was lost.
    const std::string name = entry.path().stem().string();
    if (!name.empty() && name.size() < 19 &&
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      next_segment_id_ = std::max<uint64_t>(next_segment_id_, std::stoull(name) + 1);
    }
    if (std::find(kept.begin(), kept.end(), path) == kept.end()) leftovers.push_back(path);
  }
  if (error) return ErrnoStatus(error.value(), "list", folder_ + "/segments");
  for (const std::string& path : leftovers) {
    std::filesystem::remove_all(path, error);
    // A bad inode must not keep an index shut that is whole without it, or is about to be rebuilt.
    if (error) {
      spdlog::error("index '{}': {}; it is left there", folder_, MessageOf(ErrnoStatus(error.value(), "remove", path)));
    }
  }
  return absl::OkStatus();
}

void SegmentIndex::ReassessSuperseded() {
  for (auto& [number, generation] : generations_) {
    const auto reassess = [&, n = number, &g = generation](Segment& segment) {
      mu_.AssertHeld();
      std::vector<uint32_t> gone;
      for (const auto& [state, count] : segment.counts().by_state) {
        if (state != kDeleted && count > 0 && !generations_.contains(state)) gone.push_back(state);
      }
      if (gone.empty()) return;
      for (int64_t row = 0; row < segment.rows(); ++row) {
        const uint32_t state = segment.states().Get(static_cast<size_t>(row));
        if (std::find(gone.begin(), gone.end(), state) == gone.end()) continue;
        SetState(g, {&segment, row}, SupersededBy(n, segment.block().ids[row]), applied_);
      }
    };
    for (const auto& segment : generation.sealed) reassess(*segment);
    for (const auto& segment : generation.frozen) reassess(*segment);
    if (generation.active != nullptr) reassess(*generation.active);
  }
}

std::string SegmentIndex::SegmentFolder(uint64_t id) const { return StrCat(folder_, "/segments/", id); }

}  // namespace lightcone
