#include "server/engine/validation/both_queries.h"

#include <algorithm>
#include <functional>

#include "base/dcheck.h"
#include "base/mix.h"

namespace lightcone::server {
namespace {

constexpr int64_t kProbesOfHalfMin = 50;
constexpr size_t kDefaultPlace = 1;
static_assert(kOlderWeights[kDefaultPlace] == kOlderWeightDefault);

// The halves that calibrations are learnt from, too.
size_t WeightHalfOf(size_t probe) { return Mixed(probe) & 1; }

// Over the probes that `has` names.
size_t BestWeight(std::span<const ProbeMeasures> by_weight, const ProbeMeasures& old_self,
                  const std::function<bool(size_t probe)>& has) {
  constexpr double kRounding = 1e-12;
  size_t best = kDefaultPlace;
  bool best_holds = false;
  double best_map = -1;
  for (size_t w = 0; w < by_weight.size(); ++w) {
    double map = 0, gain = 0;
    for (size_t p = 0; p < old_self.ap.size(); ++p) {
      if (!has(p) || !by_weight[w].ap[p] || !old_self.ap[p]) continue;
      map += *by_weight[w].ap[p];
      gain += *by_weight[w].cmc1[p] - *old_self.cmc1[p];
    }
    const bool holds = gain >= -kRounding;
    if (holds == best_holds ? map <= best_map : best_holds) continue;
    best = w;
    best_holds = holds;
    best_map = map;
  }
  return best;
}

}  // namespace

WeighedFusions FusionsOf(const RowSample& sample, const RankingWay& older, const RowSample& seen,
                         const RankingWay& newer) {
  LC_DCHECK(sample.rows.size() == seen.rows.size());
  LC_DCHECK(older.queries.size() == newer.queries.size());
  WeighedFusions fusions;
  for (auto& of_weight : fusions) of_weight.resize(older.queries.size());
  for (size_t p = 0; p < older.queries.size(); ++p) {
    if (!older.queries[p] || !newer.queries[p]) continue;
    const std::vector<double> by_older = sample.DistancesTo(*older.queries[p]);
    const std::vector<double> by_newer = seen.DistancesTo(*newer.queries[p]);
    for (size_t w = 0; w < kOlderWeights.size(); ++w) {
      fusions[w][p] = DistanceFusion::Make(by_older, by_newer, kOlderWeights[w]);
    }
  }
  return fusions;
}

ChosenWeights ChooseWeights(std::span<const ProbeMeasures> by_weight, const ProbeMeasures& old_self) {
  ChosenWeights chosen;
  chosen.all = kDefaultPlace;
  chosen.by_probe.assign(old_self.ap.size(), kDefaultPlace);
  int64_t measured[2] = {0, 0};
  for (size_t p = 0; p < old_self.ap.size(); ++p) {
    measured[WeightHalfOf(p)] += by_weight[0].ap[p].has_value() && old_self.ap[p].has_value();
  }
  if (std::min(measured[0], measured[1]) < kProbesOfHalfMin) return chosen;
  chosen.all = BestWeight(by_weight, old_self, [](size_t) { return true; });
  size_t by_half[2];
  for (size_t half = 0; half < 2; ++half) {
    by_half[half] = BestWeight(by_weight, old_self, [half](size_t p) { return WeightHalfOf(p) == half; });
  }
  for (size_t p = 0; p < chosen.by_probe.size(); ++p) chosen.by_probe[p] = by_half[1 - WeightHalfOf(p)];
  return chosen;
}

ProbeMeasures MeasuresBy(std::span<const ProbeMeasures> by_weight, const ChosenWeights& chosen) {
  ProbeMeasures measures;
  for (size_t p = 0; p < chosen.by_probe.size(); ++p) {
    const ProbeMeasures& from = by_weight[chosen.by_probe[p]];
    measures.cmc1.push_back(from.cmc1[p]);
    measures.cmc5.push_back(from.cmc5[p]);
    measures.ap.push_back(from.ap[p]);
  }
  return measures;
}

std::vector<DistanceFusion> FusionsBy(const WeighedFusions& by_weight, const ChosenWeights& chosen) {
  std::vector<DistanceFusion> fusions;
  for (size_t p = 0; p < chosen.by_probe.size(); ++p) fusions.push_back(by_weight[chosen.by_probe[p]][p]);
  return fusions;
}

}  // namespace lightcone::server
