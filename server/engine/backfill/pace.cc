#include "server/engine/backfill/pace.h"

#include <cmath>
#include <vector>

#include "base/dcheck.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kLately = absl::Seconds(10), kMinute = absl::Minutes(1);
constexpr size_t kSearchesMin = 20;
constexpr double kLeastShare = 1.0 / 64;

}  // namespace

std::optional<absl::Duration> SearchTimes::P99(absl::Time now) const {
  std::vector<absl::Duration> lately;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [ended, took] : times_) {
      if (ended > now - kLately && ended <= now) lately.push_back(took);
    }
  }
  if (lately.empty()) return std::nullopt;
  const double share = lately.size() < kSearchesMin ? 0.5 : 0.99;
  const auto place = lately.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(lately.size() - 1) * share);
  std::nth_element(lately.begin(), place, lately.end());
  return *place;
}

int64_t Pace::Take(absl::Time now, double rate, int64_t most, absl::Duration burst_time) {
  LC_DCHECK(rate > 0 && burst_time > absl::ZeroDuration());
  const double now_rate = rate * share_;
  const double burst = std::max(1.0, now_rate * absl::ToDoubleSeconds(burst_time));
  // A clock that was set back grants nothing. One that was set forward grants one burst.
  const double seconds = counted_ == absl::InfinitePast() ? burst / now_rate : absl::ToDoubleSeconds(now - counted_);
  ready_ = std::min(burst, ready_ + std::max(0.0, seconds) * now_rate);
  counted_ = now;
  const int64_t taken = std::min(most, static_cast<int64_t>(ready_));
  ready_ -= static_cast<double>(taken);
  return taken;
}

void Pace::Adapt(absl::Time now, bool slow) {
  if (now < adapted_ + absl::Seconds(1) && now >= adapted_) return;
  adapted_ = now;
  share_ = slow ? std::max(kLeastShare, share_ / 2) : std::min(1.0, share_ * 1.25);
}

void Growth::Note(absl::Time now, uint64_t count) {
  if (!seen_.empty() && (count < seen_.back().second || now < seen_.back().first)) seen_.clear();
  if (!Due(now)) return;
  seen_.emplace_back(now, count);
  while (seen_.size() > 2 && seen_.front().first < now - kMinute) seen_.pop_front();
}

double Growth::PerSecond() const {
  if (seen_.size() < 2) return 0;
  const double seconds = absl::ToDoubleSeconds(seen_.back().first - seen_.front().first);
  return seconds > 0 ? static_cast<double>(seen_.back().second - seen_.front().second) / seconds : 0;
}

}  // namespace lightcone::server
