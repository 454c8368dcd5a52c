#include "index/life/file_checks.h"

#include <algorithm>

#include "base/status.h"
#include "index/rows/disk_pace.h"
#include "spdlog/spdlog.h"

namespace lightcone {

absl::Duration FileChecks::CheckNext(bool hurry) {
  constexpr absl::Duration kCheckAgainAfter = absl::Seconds(5);
  std::shared_ptr<SealedSegment> segment;
  {
    absl::MutexLock lock(&state_.mu);
    if (state_.unchecked.empty()) return absl::InfiniteDuration();
    // A flush and the pool of checks may read at the same time: each begins at its own end.
    segment = hurry ? state_.unchecked.front() : state_.unchecked.back();
  }
  // A seal for which writes begin to wait comes before the checks of a flush.
  const bool was_crowded = state_.crowded.load();
  const absl::Status status =
      Check(*segment, hurry, [&] { return state_.stopping() || (hurry && !was_crowded && state_.crowded.load()); });
  if (absl::IsCancelled(status)) return hurry ? absl::ZeroDuration() : absl::InfiniteDuration();
  if (!status.ok()) {
    spdlog::warn("index '{}': segment {} cannot be checked now: {}", state_.folder, segment->id(), MessageOf(status));
    return kCheckAgainAfter;
  }
  absl::MutexLock lock(&state_.mu);
  std::erase(state_.unchecked, segment);
  state_.Nudge();
  return state_.unchecked.empty() ? absl::InfiniteDuration() : absl::ZeroDuration();
}

absl::Status FileChecks::Check(const SealedSegment& segment, bool hurry, absl::FunctionRef<bool()> stop) {
  const absl::Status status = segment.Check([&](size_t bytes) {
    if (!hurry && !stop()) AwaitCheckPace(bytes, stop);
    return !stop();
  });
  if (!absl::IsDataLoss(status)) return status;
  absl::MutexLock lock(&state_.mu);
  const auto it = state_.generations.find(segment.generation());
  const auto is_it = [&segment](const auto& s) { return s.get() == &segment; };
  // A merge or a drop may have removed its files meanwhile.
  if (it == state_.generations.end() || std::none_of(it->second.sealed.begin(), it->second.sealed.end(), is_it)) {
    return absl::OkStatus();
  }
  spdlog::error("index '{}': segment {}: {}", state_.folder, segment.id(), MessageOf(status));
  segment.MarkDamaged();
  state_.Wake();
  return absl::OkStatus();
}

void FileChecks::LookAtFiles() {
  std::vector<std::shared_ptr<SealedSegment>> segments;
  {
    absl::MutexLock lock(&state_.mu);
    for (const auto& [number, generation] : state_.generations) {
      segments.insert(segments.end(), generation.sealed.begin(), generation.sealed.end());
    }
  }
  for (const auto& segment : segments) {
    if (segment->damaged()) continue;
    const absl::Status status = segment->CheckFiles();
    if (status.ok()) continue;
    spdlog::error("index '{}': segment {}: {}", state_.folder, segment->id(), MessageOf(status));
    segment->MarkDamaged();
  }
}

bool FileChecks::AnyDamaged() const {
  state_.mu.AssertHeld();
  return std::any_of(state_.generations.begin(), state_.generations.end(), [](const auto& entry) {
    return std::any_of(entry.second.sealed.begin(), entry.second.sealed.end(),
                       [](const auto& segment) { return segment->damaged(); });
  });
}

}  // namespace lightcone
