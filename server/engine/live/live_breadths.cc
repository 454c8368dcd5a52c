#include "server/engine/live/live_breadths.h"

#include <algorithm>

#include "index/api/search.h"

namespace lightcone::server {
namespace {

constexpr double kDecay = 1.0 - 1.0 / 64;  // a sample
constexpr double kExpectedMin = 100;       // hits from which on a share tells something
constexpr double kWellAbove = 0.975;
constexpr double kGainMin = 0.005;  // recall that a doubling must gain
constexpr absl::Duration kBelowFor = absl::Minutes(1), kAboveFor = absl::Minutes(10), kUselessFor = absl::Hours(1);

}  // namespace

void LiveBreadths::Record(uint32_t query_generation, uint32_t item_generation, double expected, double found,
                          absl::Time now) {
  absl::MutexLock lock(&mu_);
  Pair& pair = pairs_[{query_generation, item_generation}];
  pair.expected = kDecay * pair.expected + expected;
  pair.found = kDecay * pair.found + found;
  if (pair.expected < kExpectedMin) return;
  const double recall = pair.found / pair.expected;
  pair.below_since = recall < kDefaultRecall ? std::min(pair.below_since, now) : absl::InfiniteFuture();
  pair.above_since = recall > kWellAbove ? std::min(pair.above_since, now) : absl::InfiniteFuture();
  Pair next;  // Samples of another breadth say nothing of this one.
  next.factor = pair.factor;
  next.useless_until = pair.useless_until;
  if (now - pair.below_since >= kBelowFor) {
    if (pair.recall_before >= 0 && recall < pair.recall_before + kGainMin) {
      next.factor = pair.factor / 2;
      next.useless_until = now + kUselessFor;
    } else if (now >= pair.useless_until && pair.factor < kFactorMax) {
      next.factor = 2 * pair.factor;
      next.recall_before = recall;
    }
  } else if (now - pair.above_since >= kAboveFor) {
    next.factor = std::max(pair.factor / 2, 1.0);
  }
  if (next.factor == pair.factor) return;
  pair = next;
  any_.store(std::any_of(pairs_.begin(), pairs_.end(), [](const auto& entry) { return entry.second.factor > 1; }));
}

double LiveBreadths::FactorOf(uint32_t query_generation, uint32_t item_generation) const {
  if (!any_.load(std::memory_order_relaxed)) return 1;
  absl::ReaderMutexLock lock(&mu_);
  const auto it = pairs_.find({query_generation, item_generation});
  return it == pairs_.end() ? 1 : it->second.factor;
}

std::vector<LiveBreadth> LiveBreadths::Status() const {
  absl::ReaderMutexLock lock(&mu_);
  std::vector<LiveBreadth> factors;
  for (const auto& [key, pair] : pairs_) {
    if (pair.factor > 1) factors.push_back({key.first, key.second, pair.factor});
  }
  return factors;
}

}  // namespace lightcone::server
