#include "index/life/write_load.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace lightcone {
namespace {

// A graph costs a core for seconds, which a burst of writes needs for itself, and rows that are sealed together are not
// merged later. So the builder waits until no write has come for kQuiet, but no longer than its caller says, and not
// once this many full growing segments would have to be scanned by every search.
constexpr absl::Duration kQuiet = absl::Milliseconds(300);
constexpr int64_t kDeferredSegmentsMax = 4;
// A load is over when none of its rows had to be sealed provisionally for so long, whatever pauses it makes. Until then
// graphs for provisional segments, merges and compactions wait, because the cores are needed for sealing.
constexpr absl::Duration kLoadPasses = absl::Seconds(3);
// Provisional bytes, as a multiple of what may wait to be sealed, from which on writes come in at the speed of graphs:
// every search looks through provisional segments until they are rewritten.
constexpr int64_t kProvisionalTimes = 8;

}  // namespace

bool WriteLoad::IsBehind() const {
  state_.mu.AssertHeld();
  int64_t rows = 0;
  for (const auto& [number, generation] : state_.generations) rows += generation.FrozenRows();
  return rows >= kDeferredSegmentsMax * state_.settings.growing_rows_max;
}

bool WriteLoad::FrozenCrowd() const {
  state_.mu.AssertHeld();
  int64_t bytes = 0;
  for (const auto& [number, generation] : state_.generations) bytes += generation.FrozenBytes();
  return state_.limits.unsealed_bytes_max > 0 && bytes >= state_.limits.unsealed_bytes_max / kHurryShare;
}

bool WriteLoad::HurryIsDue(int64_t rows) const {
  state_.mu.AssertHeld();
  if (ProvisionalBytes() >= kProvisionalTimes * ProvisionalLimit()) return false;
  if (FrozenCrowd()) return true;
  const bool written = GoesOn() || absl::Now() < state_.last_apply + kQuiet;
  return rows > kScanRowsMax && IsBehind() && !state_.flush.pending() && written;
}

absl::Duration WriteLoad::BurstLeft(absl::Time latest) const {
  state_.mu.AssertHeld();
  if (IsBehind() || state_.Crowded() || FrozenCrowd()) return absl::ZeroDuration();
  const absl::Time now = absl::Now(), quiet_at = std::min(std::max(state_.last_apply + kQuiet, now + Left()), latest);
  return std::clamp(quiet_at - now, absl::ZeroDuration(), kQuiet);  // Rows of an active segment wake nobody.
}

void WriteLoad::RecordProvisionalSeal() {
  state_.mu.AssertHeld();
  last_provisional_ = std::chrono::steady_clock::now();
}

absl::Duration WriteLoad::Left() const {
  state_.mu.AssertHeld();
  if (!last_provisional_ || ProvisionalBytes() >= ProvisionalLimit()) return absl::ZeroDuration();
  const auto since = std::chrono::steady_clock::now() - *last_provisional_;
  return std::max(absl::ZeroDuration(), kLoadPasses - absl::FromChrono(since));
}

int64_t WriteLoad::ProvisionalBytes() const {
  int64_t bytes = 0;
  for (const auto& [number, generation] : state_.generations) {
    for (const auto& segment : generation.sealed) {
      if (segment->manifest().provisional) bytes += segment->mapped_bytes();
    }
  }
  return bytes;
}

int64_t WriteLoad::ProvisionalLimit() const {
  constexpr int64_t kWithoutLimit = int64_t{2} << 30;  // where nothing limits what waits to be sealed
  return state_.limits.unsealed_bytes_max > 0 ? state_.limits.unsealed_bytes_max : kWithoutLimit;
}

}  // namespace lightcone
