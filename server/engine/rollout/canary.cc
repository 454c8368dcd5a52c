#include "server/engine/rollout/canary.h"

#include <algorithm>
#include <vector>

#include "base/mix.h"

namespace lightcone::server {

bool CanaryHas(std::string_view key, uint32_t collection, uint32_t generation, double share) {
  // Another canary tries other users: its number is mixed in.
  uint64_t hash = Mixed((uint64_t{collection} << 32) | generation);
  for (const char c : key) hash = Mixed(hash ^ static_cast<uint8_t>(c));
  constexpr double kOneOf = 0x1p-53;  // the upper 53 bits, as a number in [0, 1)
  return static_cast<double>(hash >> 11) * kOneOf < share;
}

void CanaryTally::Restart() {
  absl::MutexLock lock(&mu_);
  sides_ = {};
  unroutable_ = 0;
}

void CanaryTally::Note(bool canary, absl::Duration took, const absl::StatusOr<SearchAnswer>& answer) {
  if (absl::IsCancelled(answer.status())) return;  // the caller's doing
  absl::MutexLock lock(&mu_);
  Side& side = sides_[canary ? 1 : 0];
  side.milliseconds[side.searches++ % side.milliseconds.size()] = static_cast<float>(absl::ToDoubleMilliseconds(took));
  bool failed = !answer.ok();
  if (answer.ok()) {
    for (const QueryAnswer& result : answer->results) {
      failed = failed || !result.status.ok();
      if (!result.status.ok() || result.hits.empty()) continue;
      // A calibration may put another before the nearest.
      const auto nearest =
          std::min_element(result.hits.begin(), result.hits.end(),
                           [](const EngineHit& a, const EngineHit& b) { return a.distance < b.distance; });
      side.distances += nearest->distance;
      side.uncertainties += nearest->uncertainty;
      ++side.nearest;
    }
  }
  side.failures += failed ? 1 : 0;
}

void CanaryTally::NoteUnroutable() {
  absl::MutexLock lock(&mu_);
  ++unroutable_;
}

void CanaryTally::Fill(const Side& side, CanarySide* out) {
  out->searches = side.searches;
  out->failures = side.failures;
  if (side.nearest > 0) {
    out->nearest_distance = side.distances / static_cast<double>(side.nearest);
    out->nearest_uncertainty = side.uncertainties / static_cast<double>(side.nearest);
  }
  if (side.searches == 0) return;
  const size_t count = std::min<size_t>(side.searches, side.milliseconds.size());
  std::vector<float> sorted(side.milliseconds.begin(), side.milliseconds.begin() + static_cast<int64_t>(count));
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) { return sorted[static_cast<size_t>(share * static_cast<double>(count - 1))]; };
  out->p50_ms = at(0.5);
  out->p99_ms = at(0.99);
}

void CanaryTally::Fill(CanaryStatus* status) const {
  absl::MutexLock lock(&mu_);
  Fill(sides_[0], &status->active);
  Fill(sides_[1], &status->canary);
  status->unroutable = unroutable_;
}

}  // namespace lightcone::server
