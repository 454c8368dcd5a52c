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

}  // namespace

bool MayCondition(const Space& item_space, const NewerQuery& newer) {
  return item_space.metric == Metric::kCosine && newer.bound->item_space().metric == Metric::kCosine;
}

FusionBasis BasisOf(const FusionSamples& samples, const OlderQuery& older, const NewerQuery& newer) {
  LC_DCHECK(samples.rows.rows.size() == samples.seen.rows.size());
  FusionBasis basis{samples.rows.DistancesTo(*older.plain),
                    samples.seen.DistancesTo(*newer.bound),
                    {},
                    samples.own.DistancesTo(*newer.own),
                    DistanceOfSelf(older, newer)};
  const SampleLikeness* const of_rows = samples.rows.likeness();
  if (older.likeness == nullptr || of_rows == nullptr) return basis;
  const size_t size = of_rows->kernel.features();
  for (size_t i = 0; i < basis.older.size(); ++i) {
    const auto features = std::span(of_rows->features).subspan(i * size, size);
    basis.likeness.push_back(older.likeness->Distance(basis.older[i], features));
  }
  return basis;
}

DistanceFusion FusionOver(const FusionBasis& basis, const OlderShare& share) {
  LC_DCHECK(!share.conditioned || basis.likeness.size() == basis.older.size());
  const std::vector<double>& older = share.conditioned ? basis.likeness : basis.older;
  const DistanceFusion fusion = share.conditioned
                                    ? DistanceFusion::MakeConditioned(basis.newer, basis.newer_self, share.weight)
                                    : DistanceFusion::Make(older, basis.newer, share.weight);
  return fusion.OnScaleOf(basis.own, older, basis.newer);
}

}  // namespace lightcone::server
