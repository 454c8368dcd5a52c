// Hits that are near the query and unlike each other, as Qdrant's "mmr" asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/metric.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

struct Diversity {
  static constexpr int64_t kCandidatesMax = 1'000;

  double weight = 0.5;     // 0: the nearest; 1: the most unlike
  int64_t candidates = 0;  // nearest hits that are chosen among; 0: as many as are wanted
};

// At most so many of the hits, by maximal marginal relevance (Carbonell & Goldstein 1998): first the nearest, then
// always the greatest (1 - weight) similarity to the query - weight (greatest similarity to a chosen hit). Vectors of
// two generations lie in two spaces and are not compared: to a hit without a chosen one of its generation all are alike
// by 0. Costs hits * wanted * dimension. INVALID_ARGUMENT where a vector is none of the metric's. Threads: pure.
// REQUIRES: the hits have their vectors, best first; 0 <= weight <= 1; `metric` is cosine, inner product or Euclid's.
absl::StatusOr<std::vector<EngineHit>> Diversified(Metric metric, std::vector<EngineHit> hits, double weight,
                                                   size_t wanted);

}  // namespace lightcone::server
