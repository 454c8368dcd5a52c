#include "server/engine/collection/query_fusion.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/dcheck.h"
#include "server/engine/collection/checks.h"

namespace lightcone::server {
namespace {

// Distance of the newer vector to the older one, as it sees rows; infinite where an adapter makes no vector of that.
double DistanceOfSelf(const OlderQuery& older, const NewerQuery& newer) {
  if (newer.carry == nullptr) return newer.bound->Distance(older.vector);
  std::vector<float> carried(static_cast<size_t>(newer.carry->output_dimension()));
  newer.carry->ApplyOne(older.vector, carried);
  const bool made = CheckVector(newer.carry->target(), carried, "vector").ok();
  return made ? newer.bound->Distance(carried) : std::numeric_limits<double>::infinity();
}

// `features`: of the rows, where their distances by likeness are wanted.
PairDistances DistancesTo(const RowSample& rows, const RowSample& seen, std::span<const float> features,
                          const OlderQuery& older, const NewerQuery& newer) {
  PairDistances distances{rows.DistancesTo(*older.plain), seen.DistancesTo(*newer.bound), {}};
  if (older.likeness == nullptr || features.empty()) return distances;
  const size_t size = features.size() / rows.rows.size();
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    distances.likeness.push_back(older.likeness->Distance(distances.older[i], features.subspan(i * size, size)));
  }
  return distances;
}

}  // namespace

bool MayCondition(const Space& item_space, const NewerQuery& newer) {
  return item_space.metric == Metric::kCosine && newer.bound->item_space().metric == Metric::kCosine;
}

FusionBasis BasisOf(const FusionSamples& samples, const OlderQuery& older, const NewerQuery& newer) {
  LC_DCHECK(samples.rows.rows.size() == samples.seen.rows.size());
  const ScaleSample& scale = samples.scale;
  LC_DCHECK(newer.carry == nullptr || scale.carried != nullptr);
  return {
      DistancesTo(samples.rows, samples.seen, {}, older, newer),
      DistancesTo(*scale.older, newer.carry == nullptr ? *scale.older : *scale.carried, scale.features, older, newer),
      scale.newer->DistancesTo(*newer.own), DistanceOfSelf(older, newer)};
}

DistanceFusion FusionOver(const FusionBasis& basis, const OlderShare& share) {
  const PairDistances &sample = basis.sample, &scale = basis.scale;
  LC_DCHECK(!share.conditioned || scale.likeness.size() == scale.older.size());
  const DistanceFusion fusion = share.conditioned
                                    ? DistanceFusion::MakeConditioned(sample.newer, basis.newer_self, share.weight)
                                    : DistanceFusion::Make(sample.older, sample.newer, share.weight);
  return fusion.OnScaleOf(basis.own, scale.OlderOf(share), scale.newer);
}

}  // namespace lightcone::server
