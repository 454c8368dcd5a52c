#include "index/life/file_checks.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/status.h"
#include "base/work_pool.h"
#include "index/rows/disk_pace.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

constexpr absl::Duration kCheckAgainAfter = absl::Seconds(5);

void Warn(const std::string& folder, const SealedSegment& segment, const absl::Status& status) {
  spdlog::warn("index '{}': segment {} cannot be checked now: {}", folder, segment.id(), MessageOf(status));
}

}  // namespace

absl::Duration FileChecks::CheckNext() {
  try {
    return CheckNewest();
  } catch (...) {  // Out of memory does not end the process.
    return kCheckAgainAfter;
  }
}

absl::Duration FileChecks::CheckNewest() {
  std::shared_ptr<SealedSegment> segment;
  {
    absl::MutexLock lock(&state_.mu);
    if (state_.unchecked.empty()) return absl::InfiniteDuration();
    segment = state_.unchecked.back();
  }
  const auto stop = [&] { return state_.stopping() || segment->checked(); };
  SealedSegment::CheckedUpTo so_far;
  return Record(segment, Check(*segment, so_far, [&stop](size_t bytes) {
                  if (!stop()) AwaitCheckPace(bytes, stop);
                  return !stop();
                }));
}

absl::Duration FileChecks::CheckForFlush(absl::Duration longest) {
  std::shared_ptr<SealedSegment> segment;
  {
    absl::MutexLock lock(&state_.mu);
    if (state_.unchecked.empty()) return absl::InfiniteDuration();
    segment = state_.unchecked.front();  // The pool of checks begins at the other end.
  }
  if (segment->id() != flush_segment_) flush_read_ = {};
  flush_segment_ = segment->id();
  const absl::Time until = absl::Now() + longest;
  return Record(segment, Check(*segment, flush_read_, [&](size_t) {
                  return !state_.stopping() && !segment->checked() && absl::Now() < until;
                }));
}

absl::Duration FileChecks::Record(const std::shared_ptr<SealedSegment>& segment, const absl::Status& status) {
  if (absl::IsCancelled(status)) return state_.stopping() ? absl::InfiniteDuration() : absl::ZeroDuration();
  if (!status.ok()) {
    Warn(state_.folder, *segment, status);
    return kCheckAgainAfter;
  }
  segment->set_checked();
  absl::MutexLock lock(&state_.mu);
  std::erase(state_.unchecked, segment);
  state_.Nudge();
  return state_.unchecked.empty() ? absl::InfiniteDuration() : absl::ZeroDuration();
}

absl::Status FileChecks::CheckSource(const SealedSegment& segment, absl::FunctionRef<bool()> stop) {
  constexpr absl::Duration kSleepMax = absl::Milliseconds(20);
  SealedSegment::CheckedUpTo so_far;
  while (true) {
    const absl::Status status = Check(segment, so_far, [&stop](size_t) { return !stop(); });
    if (status.ok() || absl::IsCancelled(status)) return status;
    Warn(state_.folder, segment, status);
    const WorkPool::LongStep waiting;  // Rewrites of other indexes have its thread meanwhile.
    for (const absl::Time again = absl::Now() + kCheckAgainAfter; absl::Now() < again; absl::SleepFor(kSleepMax)) {
      if (stop()) return MakeStatus(absl::StatusCode::kCancelled, "check stopped");
    }
  }
}

absl::Status FileChecks::Check(const SealedSegment& segment, SealedSegment::CheckedUpTo& so_far,
                               absl::FunctionRef<bool(size_t bytes)> go_on) {
  const absl::Status status = segment.Check(so_far, go_on);
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
