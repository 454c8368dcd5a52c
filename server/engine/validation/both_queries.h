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
    {{0.1}, {0.25}, {0.5}, {0.75}, {0.9}, {0.6, true}, {0.75, true}, {0.85, true}}};
inline constexpr size_t kPlainShares = 5;  // the first ones, which need no cosine spaces

// The older generation's own queries, with their likenesses for conditioned shares.
struct OlderWays {
  RankingWay plain;
  RowSamplePtr rows;  // sample of the generation's rows, which owns the kernel of the likenesses
  ProbeLikenesses likenesses;
};

// There are likenesses where the sample has a kernel and the space is cosine.
OlderWays OlderWaysOf(RowSamplePtr rows, const ProbeVectors& vectors, const Space& space, RankingWay plain);

// A way of the newer generation's queries to the older one's rows, and their own to its own rows.
struct NewerWays {
  const RankingWay& way;
  RowSamplePtr seen;  // the sample of older rows as the way sees them
  const RankingWay& self;
  ScaleSamplePtr scale;
};

// The fusions of one way's distances with the older generation's own, by share, then probe: all of kOlderShares between
// cosine spaces, else the plain ones. Learnt, as searches do it, from each probe's distances to samples of rows.
// `vectors`: the probes' by the older generation. REQUIRES: both samples of the older generation's rows are as long,
// and all ways have one query a probe, or none.
std::vector<std::vector<DistanceFusion>> FusionsOf(const OlderWays& older, const ProbeVectors& vectors,
                                                   const NewerWays& newer);

// The share for searches, and for each probe the one that the probes of the other half chose. With fewer than 50
// measured probes in a half nothing is chosen: all are the default.
struct ChosenShares {
  size_t all = 1;                // place in kOlderShares
  std::vector<size_t> by_probe;  // the same
};
// The greatest CMC@1 + mAP whose CMC@1 is not below that of the older generation's own queries; of all, where none is
// so. `by_share`: measures of the first of kOlderShares, each of one value a probe.
ChosenShares ChooseShares(std::span<const ProbeMeasures> by_share, const ProbeMeasures& old_self);

// The measures with the CMC@1 of the gallery as it stands: the first hit is the nearer of the nearest older row and the
// nearest row of the newer generation's own, so that a share is not chosen whose distances rank one kind before the
// other. `older`, `newer`: one a probe; none of a kind is infinitely far.
ProbeMeasures AsItStands(const ProbeMeasures& measures, std::span<const NearestRow> older,
                         std::span<const NearestRow> newer);

// Of each probe, what its share measured, its fusion, or the likeness that this fusion takes: none of a plain one.
ProbeMeasures MeasuresBy(std::span<const ProbeMeasures> by_share, const ChosenShares& chosen);
std::vector<DistanceFusion> FusionsBy(std::span<const std::vector<DistanceFusion>> by_share,
                                      const ChosenShares& chosen);
ProbeLikenesses LikenessesBy(const ProbeLikenesses& all, const ChosenShares& chosen);

}  // namespace lightcone::server
