#include "server/engine/live/live_figures.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace lightcone::server {
namespace {

constexpr double kRecentDecay = 1.0 - 1.0 / 128;  // a sample; half of the weight lies in the last 89
constexpr size_t kValuesMax = 512;                // values kept of a pair of generations
constexpr size_t kValuesMin = 50;                 // least number of values for a distance of distributions

}  // namespace

double DistributionDistance(std::vector<float> a, std::vector<float> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double most = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const float value = std::min(a[i], b[j]);
    while (i < a.size() && a[i] == value) ++i;
    while (j < b.size() && b[j] == value) ++j;
    const double share_a = static_cast<double>(i) / static_cast<double>(a.size());
    const double share_b = static_cast<double>(j) / static_cast<double>(b.size());
    most = std::max(most, std::abs(share_a - share_b));
  }
  return most;
}

void LiveFigures::Spread::Add(double value) {
  if (values.size() < kValuesMax) {
    values.push_back(static_cast<float>(value));
  } else {
    values[next] = static_cast<float>(value);
    next = (next + 1) % kValuesMax;
  }
  ++count;
  sum += value;
}

void LiveFigures::Record(uint32_t query_generation, const std::string& filter, const std::vector<EngineHit>& answered,
                         const std::vector<EngineHit>& exact, bool names_no_breadth, absl::Time now) {
  absl::flat_hash_set<ItemId> found, wanted;
  for (const EngineHit& hit : answered) found.insert(hit.id);
  for (const EngineHit& hit : exact) wanted.insert(hit.id);
  // Of items that are equally near either search may answer any: each stands for one that the other has in its place.
  absl::flat_hash_map<double, int> in_place;  // number of hits at a distance that the exact search does not have
  for (const EngineHit& hit : answered) in_place[hit.distance] += !wanted.contains(hit.id);
  absl::MutexLock lock(&mu_);
  ++samples_;
  for (auto& [key, recall] : recall_) {
    recall.recent_expected *= kRecentDecay;
    recall.recent_found *= kRecentDecay;
  }
  std::map<uint32_t, std::pair<double, double>> by_generation;  // expected, found
  for (const EngineHit& hit : exact) {
    auto& [expected, found_here] = by_generation[hit.generation];
    ++expected;
    Recall& recall = recall_[{query_generation, hit.generation, std::string(hit.segment), filter}];
    ++recall.expected;
    recall.recent_expected += 1;
    if (!found.contains(hit.id) && --in_place[hit.distance] < 0) continue;
    ++recall.found;
    recall.recent_found += 1;
    ++found_here;
  }
  for (const auto& [generation, hits] : by_generation) {
    if (names_no_breadth) breadths_.Record(query_generation, generation, hits.first, hits.second, now);
  }
  for (const EngineHit& hit : answered) {
    Pair& pair = pairs_[{query_generation, hit.generation}];
    pair.distance.Add(hit.distance);
    pair.uncertainty.Add(hit.uncertainty);
  }
}

void LiveFigures::RecordFailure() {
  absl::MutexLock lock(&mu_);
  ++failures_;
}

const LiveFigures::Pair* LiveFigures::ReferenceOf(uint32_t query_generation, uint32_t item_generation) const {
  const auto enough = [&](const Pair& pair) { return pair.distance.values.size() >= kValuesMin; };
  if (query_generation != item_generation) {
    const auto own = pairs_.find({query_generation, query_generation});
    return own != pairs_.end() && enough(own->second) ? &own->second : nullptr;
  }
  const Pair* earlier = nullptr;
  for (const auto& [key, pair] : pairs_) {
    if (key.first == key.second && key.first < query_generation && enough(pair)) earlier = &pair;
  }
  return earlier;
}

LiveRecallStatus LiveFigures::Status() const {
  LiveRecallStatus status;
  status.breadths = breadths_.Status();
  absl::ReaderMutexLock lock(&mu_);
  status.samples = samples_;
  status.failures = failures_;
  for (const auto& [key, recall] : recall_) {
    const auto& [query_generation, item_generation, segment, filter] = key;
    status.recall.push_back({query_generation, item_generation, segment, filter, recall.expected, recall.found,
                             recall.recent_expected, recall.recent_found});
  }
  for (const auto& [key, pair] : pairs_) {
    const Pair* reference = ReferenceOf(key.first, key.second);
    for (const char* quantity : {"distance", "uncertainty"}) {
      const auto spread_of = [&](const Pair& p) -> const Spread& {
        return quantity[0] == 'd' ? p.distance : p.uncertainty;
      };
      const Spread& spread = spread_of(pair);
      LiveSpread out{key.first, key.second, quantity, spread.count, spread.sum, {}, std::nullopt};
      std::vector<float> sorted = spread.values;
      std::sort(sorted.begin(), sorted.end());
      for (const double q : LiveSpread::kQuantiles) {
        out.quantiles.push_back(sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)]);
      }
      if (reference != nullptr && spread.values.size() >= kValuesMin) {
        out.drift = DistributionDistance(spread.values, spread_of(*reference).values);
      }
      status.spreads.push_back(std::move(out));
    }
  }
  return status;
}

}  // namespace lightcone::server
