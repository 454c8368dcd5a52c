// The ranks of relevant items in whole galleries, without a distance matrix and without an index: two walks over the
// store's embeddings, whatever the gallery's size. Threads: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/adapter.h"
#include "geometry/bound_query.h"
#include "server/engine/collection/collection.h"
#include "server/engine/validation/probe_relevance.h"
#include "stats/metrics.h"

namespace lightcone::server {

// One way from queries to the rows of a gallery.
struct RankingWay {
  std::vector<std::optional<BoundQuery>> queries;  // one a probe; empty: it has no vector. Bound to the rows' space
  const Adapter* carry = nullptr;                  // rows are carried by it before they are scored
  std::vector<size_t> failed;                      // probes whose vector an adapter made no vector of
};

struct RankingRun {
  std::function<bool()> cancelled;
  std::function<void(std::string_view step)> report;
};

// By way and probe: where the relevant items of the gallery (embeddings by `generation`) stand. `first` is 0 where the
// gallery has none, or the probe no query. A probe's own item is left out; an item that an adapter makes no vector of
// is behind everything; of items at one distance those that are not relevant come first, so that a model that makes one
// vector of everything finds nothing. Scores are those of the float32 kernels.
// CANCELLED; DATA_LOSS. `items`: rows of the gallery.
absl::StatusOr<std::vector<std::vector<QueryRanking>>> RankGallery(Collection* collection, uint32_t generation,
                                                                   const Space& space, std::span<const RankingWay> ways,
                                                                   std::span<const ProbeTarget> targets,
                                                                   const RankingRun& run, uint64_t* items);

// Of one probe's values: average precision, and whether a relevant item is among the first k. Nothing where `first` is
// 0.
struct ProbeMeasures {
  std::vector<std::optional<double>> cmc1, cmc5, ap;
};
ProbeMeasures MeasuresOf(std::span<const QueryRanking> rankings);

}  // namespace lightcone::server
