// The way to older items by both queries, as a validation measures it: the older generation's own query beside a way of
// the new one's. Threads: pure functions.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/collection/row_samples.h"
#include "server/engine/validation/probe_ranking.h"
#include "server/engine/validation/validation.h"
#include "stats/distance_fusion.h"

namespace lightcone::server {

// Shares of the older query that a validation chooses among. Few, so that the choice does not fit the probes.
inline constexpr std::array<OlderShare, 8> kOlderShares = {
    {{0.1}, {0.25}, {0.5}, {0.75}, {0.9}, {0.2, true}, {0.35, true}, {0.5, true}}};
inline constexpr size_t kPlainShares = 5;  // the first ones, which need no cosine spaces

// The older generation's own queries, as they are and whitened for conditioned shares.
struct OlderWays {
  RankingWay plain, whitened;

  const RankingWay& Of(const OlderShare& share) const { return share.conditioned ? whitened : plain; }
};

// Where a query cannot be whitened, it is taken as it is, as searches do.
OlderWays OlderWaysOf(const RowSample& sample, const ProbeVectors& vectors, const Space& space, RankingWay plain);

// The fusions of one way's distances with the older generation's own, by share, then probe: all of kOlderShares between
// cosine spaces, else the plain ones. Learnt, as searches do it, from each probe's distances to a sample of the
// gallery: `sample` as it is, and `seen` as the way sees it. `vectors`: the probes' by the older generation. REQUIRES:
// both samples have as many rows, and both ways one query a probe, or none.
std::vector<std::vector<DistanceFusion>> FusionsOf(const RowSample& sample, const ProbeVectors& vectors,
                                                   const OlderWays& older, const RowSample& seen,
                                                   const RankingWay& newer);

// The share for searches, and for each probe the one that the probes of the other half chose. With fewer than 50
// measured probes in a half nothing is chosen: all are the default.
struct ChosenShares {
  size_t all = 1;                // place in kOlderShares
  std::vector<size_t> by_probe;  // the same
};
// The greatest CMC@1 + mAP whose CMC@1 is not below that of the older generation's own queries; of all, where none is
// so. `by_share`: measures of the first of kOlderShares, each of one value a probe.
ChosenShares ChooseShares(std::span<const ProbeMeasures> by_share, const ProbeMeasures& old_self);

// Of each probe, what its share measured, its fusion, or the older query that this fusion takes.
ProbeMeasures MeasuresBy(std::span<const ProbeMeasures> by_share, const ChosenShares& chosen);
std::vector<DistanceFusion> FusionsBy(std::span<const std::vector<DistanceFusion>> by_share,
                                      const ChosenShares& chosen);
RankingWay OlderBy(const OlderWays& older, const ChosenShares& chosen);

}  // namespace lightcone::server
