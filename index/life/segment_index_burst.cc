// How the builder keeps up with writes: what waits for the end of a burst, and what is sealed in a hurry.

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "index/build/kind_choice.h"
#include "index/life/segment_index.h"
#include "index/rows/segment_codes.h"

namespace lightcone {
namespace {

// A graph costs a core for seconds, which a burst of writes needs for itself; and rows that are sealed together once
// are not merged later. So the builder waits until no write has come for kQuiet, but no longer than kDeferMax, and not
// once this many full growing segments would have to be scanned by every search.
constexpr absl::Duration kQuiet = absl::Milliseconds(300);
constexpr absl::Duration kDeferMax = absl::Seconds(10);
constexpr int64_t kDeferredSegmentsMax = 4;
// A load is over when none of its rows had to be sealed provisionally for so long, whatever pauses it makes. Until then
// graphs of those wait, merges and compactions: the cores are for sealing more, unless as much waits for its graph as
// may wait to be sealed.
constexpr absl::Duration kLoadPasses = absl::Seconds(3);
// But no more than so many times what may wait to be sealed: every search looks through them until they are rewritten.
// From then on writes come in at the speed of graphs.
constexpr int64_t kProvisionalTimes = 8;
// What may be provisional before graphs are built beside a load.
constexpr int64_t kProvisionalBytesMax = int64_t{2} << 30;  // without a limit for what waits to be sealed
int64_t ProvisionalLimit(const IndexLimits& limits) {
  return limits.unsealed_bytes_max > 0 ? limits.unsealed_bytes_max : kProvisionalBytesMax;
}

}  // namespace

bool SegmentIndex::Behind() const {
  int64_t rows = 0;
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.frozen) rows += segment->rows();
  }
  return rows >= kDeferredSegmentsMax * settings_.growing_rows_max;
}

void SegmentIndex::LetBurstPass() {
  const absl::Time latest = absl::Now() + kDeferMax;
  absl::MutexLock lock(&mu_);
  while (!stopping() && flush_requested_ == flush_done_ && !AnyDamaged()) {
    if (RewriteDone()) {
      mu_.Unlock();
      FinishRewrite();
      StartRewrite();
      mu_.Lock();
      continue;
    }
    const absl::Time now = absl::Now(), quiet_at = std::min(std::max(last_apply_ + kQuiet, now + LoadLeft()), latest);
    if (Behind() || Crowded() || FrozenCrowd() || now >= quiet_at) return;
    wake_.WaitWithDeadline(&mu_, std::min(quiet_at, now + kQuiet));  // Rows of an active segment wake nobody.
  }
}

bool SegmentIndex::MayWaitForBurst() {
  absl::MutexLock lock(&mu_);
  // Where something fails, the builder comes back after a while only.
  if (flush_requested_ != flush_done_ || checkpoint_due_ || !mending_error_.ok() || FrozenCrowd()) return false;
  Wake();  // What waits then is looked at once the burst has passed, or so much waits again.
  return true;
}

bool SegmentIndex::HurryIsDue(int64_t rows) const {
  if (ProvisionalBytes() >= kProvisionalTimes * ProvisionalLimit(limits_)) return false;
  if (FrozenCrowd()) return true;
  const bool written = LoadGoesOn() || absl::Now() < last_apply_ + kQuiet;
  return rows > kScanRowsMax && Behind() && flush_requested_ == flush_done_ && written;
}

int64_t SegmentIndex::GrowingRowsMax(const Space& space) const {
  constexpr int64_t kRowsMin = 1'000;  // whatever the limit: so few are no work
  if (limits_.unsealed_bytes_max == 0) return settings_.growing_rows_max;
  const int64_t row_bytes = GrowingSegment::RowBytes(space, CodesOfGrowing(space));
  return std::min(settings_.growing_rows_max,
                  std::max(kRowsMin, limits_.unsealed_bytes_max / kSealedShare / row_bytes));
}

std::optional<CodeKind> SegmentIndex::CodesOfGrowing(const Space& space) const {
  return CodeKindOf(CodesWithoutLists(settings_.codes), space.dimension);
}

bool SegmentIndex::FrozenCrowd() const {
  int64_t bytes = 0;
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.frozen) bytes += segment->heap_bytes();
  }
  return limits_.unsealed_bytes_max > 0 && bytes >= limits_.unsealed_bytes_max / kHurryShare;
}

int64_t SegmentIndex::ProvisionalBytes() const {
  int64_t bytes = 0;
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.sealed) {
      if (segment->manifest().provisional) bytes += segment->mapped_bytes();
    }
  }
  return bytes;
}

absl::Duration SegmentIndex::LoadLeft() const {
  if (!last_provisional_ || ProvisionalBytes() >= ProvisionalLimit(limits_)) return absl::ZeroDuration();
  const auto since = std::chrono::steady_clock::now() - *last_provisional_;
  return std::max(absl::ZeroDuration(), kLoadPasses - absl::FromChrono(since));
}

bool SegmentIndex::LoadGoesOn() const { return LoadLeft() > absl::ZeroDuration(); }

}  // namespace lightcone
