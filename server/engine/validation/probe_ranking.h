// The ranks of relevant items in whole galleries, by two walks over the store's embeddings. No distance matrix, no
// index. Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/adapter.h"
#include "geometry/bound_query.h"
#include "index/rows/id_set.h"
#include "server/engine/api/gate_measure.h"
#include "server/engine/collection/collection.h"
#include "server/engine/validation/probe_relevance.h"
#include "stats/distance_calibration.h"
#include "stats/distance_fusion.h"
#include "stats/metrics.h"
#include "stats/query_likeness.h"

namespace lightcone::server {

// One way from queries to the rows of a gallery.
struct RankingWay {
  std::vector<std::optional<BoundQuery>> queries;  // one a probe, bound to the rows' space; nullopt: no vector
  const Adapter* carry = nullptr;                  // maps the rows before they are scored; nullptr: none
  std::vector<size_t> failed;                      // probes of whose vector the adapter or encoder made none
};

// How like each probe is to rows, by one kernel.
struct ProbeLikenesses {
  const LikenessKernel* kernel = nullptr;  // nullptr: no probe has a likeness
  std::vector<std::optional<QueryLikeness>> by_probe;
};

// Two ways at once: the distances by both, fused. Places are those among the ways of one call.
struct FusedRanking {
  size_t older = 0, newer = 0;
  std::vector<DistanceFusion> by_probe;
  // In place of the older way's distances, which they read. nullptr: those themselves; one object for all rankings of
  // a call that have any.
  const ProbeLikenesses* likenesses = nullptr;
};

// What of a gallery is nearest to each probe, by ranking and probe as RankGallery's ranks are. Among rows at one
// distance one that is not relevant.
struct NearestRow {
  double distance = std::numeric_limits<double>::infinity();
  bool relevant = false;
};
struct NearestRows {
  const IdSet* left_out = nullptr;            // internal ids of rows that do not count; nullptr: none
  std::vector<std::vector<NearestRow>> rows;  // filled in
  IdSet ids;                                  // filled in: internal ids of the gallery
};

// Distances of one ranking, over all probes that have a query and anything to find.
struct RankedDistances {
  static constexpr size_t kNearest = 100;  // items of each probe: more than most searches ask for

  DistanceCounts nearest, relevant;  // distances of the nearest items to each probe; of all relevant items
};

struct RankingRun {
  std::function<bool()> cancelled;
  std::function<void(std::string_view step)> report;
};

// The ranks of relevant items in the gallery of embeddings by `generation`, by way and probe. `first` is 0 if the
// gallery has no relevant item, or the probe no query. A probe's own item is left out. An item of which an adapter
// makes no vector ranks last. Among items at one distance the relevant ones come last, so that a model that makes one
// vector of everything finds nothing. Scores are those of the float32 kernels. CANCELLED; DATA_LOSS. `items`: rows of
// the gallery. With `fused` the ranks of those follow, in order; a probe needs queries by both ways there. With
// `nearest` it tells these as well, of the probes that have a query and anything relevant to them anywhere; with
// `distances` those of the first rankings, as many as it has places.
absl::StatusOr<std::vector<std::vector<QueryRanking>>> RankGallery(Collection* collection, uint32_t generation,
                                                                   const Space& space, std::span<const RankingWay> ways,
                                                                   std::span<const ProbeTarget> targets,
                                                                   const RankingRun& run, uint64_t* items,
                                                                   std::span<const FusedRanking> fused = {},
                                                                   NearestRows* nearest = nullptr,
                                                                   std::vector<RankedDistances>* distances = nullptr);

// One value a probe, of each measure. nullopt if `first` is 0.
using ProbeValues = std::vector<std::optional<double>>;
struct ProbeMeasures {
  ProbeValues cmc1, cmc5, ap, mrr, ndcg10, recall10;

  // All of them, in the order of kRankingMeasures.
  std::array<ProbeValues*, 6> all() { return {&cmc1, &cmc5, &ap, &mrr, &ndcg10, &recall10}; }
  std::array<const ProbeValues*, 6> all() const { return {&cmc1, &cmc5, &ap, &mrr, &ndcg10, &recall10}; }
  // The mean that the measure names. REQUIRES: it names one.
  ProbeValues By(const GateMeasure& measure) const;
};
ProbeMeasures MeasuresOf(std::span<const QueryRanking> rankings);

}  // namespace lightcone::server
