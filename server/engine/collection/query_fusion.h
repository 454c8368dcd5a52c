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
#include "stats/query_likeness.h"

namespace lightcone::server {

// The older vector of a query as it measures the rows of its own generation.
struct OlderQuery {
  std::span<const float> vector;
  const BoundQuery* plain = nullptr;
  const QueryLikeness* likeness = nullptr;  // distances of conditioned shares; nullptr: the share is plain
};

// The newer vector of a query.
struct NewerQuery {
  const BoundQuery* bound = nullptr;  // query bound to older rows as it sees them
  const Adapter* carry = nullptr;     // makes those rows of the older generation's; nullptr: no need
  const BoundQuery* own = nullptr;    // query bound to rows of its own generation
};

// The samples that a fusion is learnt from.
struct FusionSamples {
  const RowSample& rows;
  const RowSample& seen;  // `rows` as the newer query sees them
  const ScaleSample& scale;
};

// Whether shares of queries between these spaces may be conditioned.
bool MayCondition(const Space& item_space, const NewerQuery& newer);

// Distances of both vectors to the rows of a sample. Infinite where an adapter makes no vector of a row.
struct PairDistances {
  std::vector<double> older, newer;
  std::vector<double> likeness;  // older distances of conditioned shares; empty: there are none

  const std::vector<double>& OlderOf(const OlderShare& share) const { return share.conditioned ? likeness : older; }
};
struct FusionBasis {
  PairDistances sample, scale;
  std::vector<double> own;  // distances of the newer vector to the newer rows of the scale
  double newer_self = 0;    // distance of the query's own older vector by the newer one
};
// REQUIRES: samples.rows and samples.seen are as long.
FusionBasis BasisOf(const FusionSamples& samples, const OlderQuery& older, const NewerQuery& newer);

// On the scale of the query's distances to rows of the newer generation, where both samples can say what it is, so that
// rows of both generations are ranked on one scale. REQUIRES: for a conditioned share, a basis with likenesses.
DistanceFusion FusionOver(const FusionBasis& basis, const OlderShare& share);

}  // namespace lightcone::server
