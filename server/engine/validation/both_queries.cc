#include "server/engine/validation/both_queries.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/dcheck.h"
#include "base/mix.h"
#include "server/engine/collection/query_fusion.h"

namespace lightcone::server {
namespace {

constexpr int64_t kProbesOfHalfMin = 50;
constexpr size_t kDefaultPlace = 1;
static_assert(kOlderShares[kDefaultPlace] == OlderShare());

// The halves that calibrations are learnt from, too.
size_t ShareHalfOf(size_t probe) { return Mixed(probe) & 1; }

// Over the probes that `has` names.
size_t BestShare(std::span<const ProbeMeasures> by_share, const ProbeMeasures& old_self,
                 const std::function<bool(size_t probe)>& has) {
  constexpr double kRounding = 1e-12;
  size_t best = kDefaultPlace;
  bool best_holds = false;
  double best_sum = -1;
  for (size_t s = 0; s < by_share.size(); ++s) {
    double sum = 0, gain = 0;
    for (size_t p = 0; p < old_self.ap.size(); ++p) {
      if (!has(p) || !by_share[s].ap[p] || !old_self.ap[p]) continue;
      sum += *by_share[s].ap[p] + *by_share[s].cmc1[p];
      gain += *by_share[s].cmc1[p] - *old_self.cmc1[p];
    }
    const bool holds = gain >= -kRounding;
    if (holds == best_holds ? sum <= best_sum : best_holds) continue;
    best = s;
    best_holds = holds;
    best_sum = sum;
  }
  return best;
}

}  // namespace

OlderWays OlderWaysOf(RowSamplePtr rows, const ProbeVectors& vectors, const Space& space, RankingWay plain) {
  LC_DCHECK(plain.queries.size() == vectors.size());
  OlderWays ways{std::move(plain), std::move(rows), {}};
  const LikenessKernel* const kernel = space.metric == Metric::kCosine ? ways.rows->likeness() : nullptr;
  ways.likenesses.by_probe.resize(vectors.size());
  if (kernel == nullptr) return ways;
  ways.likenesses.kernel = kernel;
  for (size_t p = 0; p < vectors.size(); ++p) {
    if (ways.plain.queries[p]) ways.likenesses.by_probe[p] = kernel->Of(*vectors[p]);
  }
  return ways;
}

std::vector<std::vector<DistanceFusion>> FusionsOf(const OlderWays& older, const ProbeVectors& vectors,
                                                   const NewerWays& newer) {
  LC_DCHECK(older.plain.queries.size() == newer.way.queries.size());
  std::vector<std::vector<DistanceFusion>> fusions(kPlainShares);
  for (auto& of_share : fusions) of_share.resize(newer.way.queries.size());
  for (size_t p = 0; p < newer.way.queries.size(); ++p) {
    if (!older.plain.queries[p] || !newer.way.queries[p] || !newer.self.queries[p]) continue;
    const NewerQuery by_newer{&*newer.way.queries[p], newer.way.carry, &*newer.self.queries[p]};
    OlderQuery by_older{*vectors[p], &*older.plain.queries[p]};
    const auto& likeness = older.likenesses.by_probe[p];
    if (likeness && MayCondition(by_older.plain->item_space(), by_newer)) {
      by_older.likeness = &*likeness;
      fusions.resize(kOlderShares.size(), std::vector<DistanceFusion>(newer.way.queries.size()));
    }
    const FusionBasis basis = BasisOf({*older.rows, *newer.seen, *newer.scale}, by_older, by_newer);
    for (size_t s = 0; s < fusions.size(); ++s) fusions[s][p] = FusionOver(basis, kOlderShares[s]);
  }
  return fusions;
}

ChosenShares ChooseShares(std::span<const ProbeMeasures> by_share, const ProbeMeasures& old_self) {
  ChosenShares chosen;
  chosen.all = kDefaultPlace;
  chosen.by_probe.assign(old_self.ap.size(), kDefaultPlace);
  int64_t measured[2] = {0, 0};
  for (size_t p = 0; p < old_self.ap.size(); ++p) {
    measured[ShareHalfOf(p)] += by_share[0].ap[p].has_value() && old_self.ap[p].has_value();
  }
  if (std::min(measured[0], measured[1]) < kProbesOfHalfMin) return chosen;
  chosen.all = BestShare(by_share, old_self, [](size_t) { return true; });
  size_t by_half[2];
  for (size_t half = 0; half < 2; ++half) {
    by_half[half] = BestShare(by_share, old_self, [half](size_t p) { return ShareHalfOf(p) == half; });
  }
  for (size_t p = 0; p < chosen.by_probe.size(); ++p) chosen.by_probe[p] = by_half[1 - ShareHalfOf(p)];
  return chosen;
}

ProbeMeasures AsItStands(const ProbeMeasures& measures, std::span<const NearestRow> older,
                         std::span<const NearestRow> newer) {
  LC_DCHECK(older.size() == measures.cmc1.size() && newer.size() == measures.cmc1.size());
  ProbeMeasures standing = measures;
  for (size_t p = 0; p < older.size(); ++p) {
    if (!standing.cmc1[p] || (std::isinf(older[p].distance) && std::isinf(newer[p].distance))) continue;
    const bool by_older = older[p].distance <= newer[p].distance && older[p].relevant;
    const bool by_newer = newer[p].distance <= older[p].distance && newer[p].relevant;
    const bool tie = older[p].distance == newer[p].distance;
    standing.cmc1[p] = tie ? by_older && by_newer : by_older || by_newer;
  }
  return standing;
}

ProbeMeasures MeasuresBy(std::span<const ProbeMeasures> by_share, const ChosenShares& chosen) {
  ProbeMeasures measures;
  for (size_t p = 0; p < chosen.by_probe.size(); ++p) {
    const ProbeMeasures& from = by_share[chosen.by_probe[p]];
    for (size_t m = 0; m < measures.all().size(); ++m) measures.all()[m]->push_back((*from.all()[m])[p]);
  }
  return measures;
}

std::vector<DistanceFusion> FusionsBy(std::span<const std::vector<DistanceFusion>> by_share,
                                      const ChosenShares& chosen) {
  std::vector<DistanceFusion> fusions;
  for (size_t p = 0; p < chosen.by_probe.size(); ++p) fusions.push_back(by_share[chosen.by_probe[p]][p]);
  return fusions;
}

ProbeLikenesses LikenessesBy(const ProbeLikenesses& all, const ChosenShares& chosen) {
  LC_DCHECK(all.by_probe.size() == chosen.by_probe.size());
  ProbeLikenesses some = all;
  for (size_t p = 0; p < chosen.by_probe.size(); ++p) {
    if (!kOlderShares[chosen.by_probe[p]].conditioned) some.by_probe[p].reset();
  }
  return some;
}

}  // namespace lightcone::server
