#include "server/engine/collection/query_fusion.h"

#include <limits>
#include <utility>

#include "base/dcheck.h"
#include "server/engine/collection/checks.h"

namespace lightcone::server {
namespace {

// Distance of the newer vector to the older one, as it sees rows; infinite where an adapter makes no vector of that.
double DistanceOfSelf(const QueryPair& queries) {
  if (queries.carry == nullptr) return queries.newer.Distance(queries.older_vector);
  std::vector<float> carried(static_cast<size_t>(queries.carry->output_dimension()));
  queries.carry->ApplyOne(queries.older_vector, carried);
  const bool made = CheckVector(queries.carry->target(), carried, "vector").ok();
  return made ? queries.newer.Distance(carried) : std::numeric_limits<double>::infinity();
}

}  // namespace

bool MayCondition(const Space& item_space, const QueryPair& queries) {
  return item_space.metric == Metric::kCosine && queries.newer.item_space().metric == Metric::kCosine;
}

std::optional<BoundQuery> Whitened(const RowSample& rows, const Space& space, std::span<const float> older_vector) {
  const QueryWhitening* const whitening = rows.whitening();
  if (whitening == nullptr) return std::nullopt;
  auto bound = BoundQuery::Make(space, space, whitening->Of(older_vector));
  if (!bound.ok()) return std::nullopt;
  return *std::move(bound);
}

FusionBasis BasisOf(const RowSample& rows, const RowSample& seen_by_newer, const QueryPair& queries) {
  LC_DCHECK(rows.rows.size() == seen_by_newer.rows.size());
  return {rows.DistancesTo(queries.older), seen_by_newer.DistancesTo(queries.newer),
          queries.older.Distance(queries.older_vector), DistanceOfSelf(queries)};
}

DistanceFusion FusionOver(const FusionBasis& basis, const OlderShare& share) {
  if (!share.conditioned) return DistanceFusion::Make(basis.older, basis.newer, share.weight);
  return DistanceFusion::MakeConditioned(basis.older, basis.newer, basis.older_self, basis.newer_self, share.weight);
}

}  // namespace lightcone::server
