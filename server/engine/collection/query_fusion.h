// How the two vectors of a query become one distance to the rows of a generation, as searches do it and a validation
// measures it. Threads: values and pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "geometry/adapter.h"
#include "geometry/bound_query.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/collection/row_samples.h"
#include "stats/distance_fusion.h"

namespace lightcone::server {

// The two vectors of a query on the rows of a generation, each bound to its rows' space.
struct QueryPair {
  std::span<const float> older_vector;
  const BoundQuery& older;  // of that vector, whitened where the share is conditioned
  const BoundQuery& newer;
  const Adapter* carry = nullptr;  // makes of the generation's rows those that `newer` is bound to; nullptr: no need
};

// Whether shares may be conditioned.
bool MayCondition(const Space& item_space, const QueryPair& queries);

// The older vector, whitened over the sample's rows and bound to their space. nullopt where it has nothing particular.
std::optional<BoundQuery> Whitened(const RowSample& rows, const Space& space, std::span<const float> older_vector);

// What a fusion is learnt from: distances to a sample of the generation's rows and, by the newer query, to the same
// rows as it sees them; and those of the query's own older vector, infinite where an adapter makes no vector of it.
struct FusionBasis {
  std::vector<double> older, newer;
  double older_self = 0, newer_self = 0;
};
// REQUIRES: both samples are as long.
FusionBasis BasisOf(const RowSample& rows, const RowSample& seen_by_newer, const QueryPair& queries);

// A conditioned share wants a basis by the whitened older query.
DistanceFusion FusionOver(const FusionBasis& basis, const OlderShare& share);

}  // namespace lightcone::server
