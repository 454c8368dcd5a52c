#include "index/life/flushes.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/status.h"

namespace lightcone {

absl::Status Flushes::Await(absl::Time deadline, const std::function<bool()>& cancelled) {
  constexpr absl::Duration kCancelPoll = absl::Milliseconds(50);
  absl::MutexLock lock(&state_.mu);
  for (auto& [number, generation] : state_.generations) state_.Freeze(generation);
  state_.checkpoint_due = true;
  const uint64_t ticket = ++state_.flush.asked;
  state_.Wake();
  while (state_.flush.done < ticket) {
    if (cancelled && cancelled()) {
      return MakeStatus(absl::StatusCode::kCancelled, "flush: cancelled by the caller; the work goes on");
    }
    if (absl::Now() >= deadline) return DeadlineExceeded("flush: ran past its deadline; the work goes on");
    state_.flushed.WaitWithDeadline(&state_.mu, cancelled ? std::min(deadline, absl::Now() + kCancelPoll) : deadline);
  }
  return state_.flush.error;
}

void Flushes::Take() {
  state_.mu.AssertHeld();
  FlushState& flush = state_.flush;
  if (flush.asked == flush.current.ticket) return;
  // One more: rows that came back from the store count as written by the next change.
  const uint64_t sequence = std::max(state_.applied, state_.newest_in_files) + 1;
  flush.current = {flush.asked, sequence, state_.next_segment_id, /*written=*/false, /*failed=*/{}};
  state_.checkpoint_due = true;
  rewrites_.RetryNow();
}

void Flushes::Answer(const absl::Status& status) {
  state_.mu.AssertHeld();
  if (state_.flush.taken()) state_.flush.error = status;
  state_.flush.done = state_.flush.current.ticket;
  state_.flushed.SignalAll();
  state_.room.SignalAll();
}

void Flushes::AnswerIfSettled(const BuildJob* seal, const absl::Status& unmended) {
  state_.mu.AssertHeld();
  if (IsSettled(seal)) Answer(Failure());
  const bool written = state_.flush.taken() && state_.flush.current.written;
  if (!unmended.ok() && written && OnlyYoungerWork(seal)) Answer(unmended);
}

bool Flushes::OnlyYoungerWork(const BuildJob* seal) const {
  if (seal == nullptr && !rewrites_.IsUnderWay()) return false;  // Nothing is left: the flush ends as the work does.
  return (seal == nullptr || seal->plan.last_sequence > state_.flush.current.sequence) && !rewrites_.WorksForFlush();
}

bool Flushes::IsSettled(const BuildJob* seal) const {
  if (!state_.flush.taken() || !state_.flush.current.written || !state_.unchecked.empty()) return false;
  if (!OnlyYoungerWork(seal) || checks_.AnyDamaged()) return false;
  const int64_t all_rows = state_.AllRows();
  return std::all_of(state_.generations.begin(), state_.generations.end(), [&](const auto& entry) {
    state_.mu.AssertHeld();
    return IsSettled(entry.second, all_rows);
  });
}

bool Flushes::IsSettled(const GenerationRows& generation, int64_t all_rows) const {
  const FlushState::Current& flush = state_.flush.current;
  // A damaged generation is whole again only once its rows are in files.
  if (!generation.damaged.empty() || (generation.active != nullptr && generation.active->recovered())) return false;
  for (const auto& segment : generation.frozen) {
    if (segment->recovered() || segment->last_sequence() <= flush.sequence) return false;
  }
  if (!Failure().ok()) return true;
  for (const auto& segment : generation.sealed) {
    // A flush does not wait for segments that were sealed since: where rows change all the time, one is always due for
    // compaction. It waits for provisional segments, whenever they were sealed: none comes out of their rewrites.
    const SegmentManifest& of = segment->manifest();
    const bool asked = of.provisional ? of.first_sequence <= flush.sequence
                                      : segment->id() < flush.next_id && of.last_sequence <= flush.sequence;
    if (asked && rewrites_.IsAwaited(*segment, all_rows)) return false;
  }
  return true;
}

absl::Status Flushes::Failure() const {
  const std::optional<RewriteKind>& failed = state_.flush.current.failed;
  return failed ? rewrites_.LastError(*failed) : absl::OkStatus();
}

}  // namespace lightcone
