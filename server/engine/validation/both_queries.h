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
#include "stats/distance_fusion.h"

namespace lightcone::server {

// Weights of the older query that a validation chooses among. Few, so that the choice does not fit the probes.
inline constexpr std::array<double, 5> kOlderWeights = {0.1, kOlderWeightDefault, 0.5, 0.75, 0.9};

// The fusions of one way's distances with the older generation's own, by weight (kOlderWeights), then probe.
using WeighedFusions = std::array<std::vector<DistanceFusion>, kOlderWeights.size()>;

// Learnt, as searches do it, from each probe's distances to a sample of the gallery: `sample` as it is, and `seen` as
// the way sees it. REQUIRES: both have as many rows, and both ways one query a probe, or none.
WeighedFusions FusionsOf(const RowSample& sample, const RankingWay& older, const RowSample& seen,
                         const RankingWay& newer);

// The weight for searches, and for each probe the one that the probes of the other half chose. With fewer than 50
// measured probes in a half nothing is chosen: all are kOlderWeightDefault.
struct ChosenWeights {
  size_t all = 1;                // place in kOlderWeights
  std::vector<size_t> by_probe;  // the same
};
// The greatest mAP whose CMC@1 is not below that of the older generation's own queries; of all, where none is so.
// `by_weight`: measures by weight, in the order of kOlderWeights, each of one value a probe.
ChosenWeights ChooseWeights(std::span<const ProbeMeasures> by_weight, const ProbeMeasures& old_self);

// Of each probe, what its weight measured, or its fusion.
ProbeMeasures MeasuresBy(std::span<const ProbeMeasures> by_weight, const ChosenWeights& chosen);
std::vector<DistanceFusion> FusionsBy(const WeighedFusions& by_weight, const ChosenWeights& chosen);

}  // namespace lightcone::server
