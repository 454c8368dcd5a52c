// The legs of searches whose queries carry vectors of older generations.
#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/bound_query.h"
#include "server/engine/search/fused_leg.h"
#include "server/engine/search/search.h"

namespace lightcone::server {

const OlderVector* SearchRun::OlderOf(const BoundVector& query, uint32_t item_generation) {
  if (!query.status.ok()) return nullptr;
  for (const OlderVector& older : query.older) {
    if (older.generation == item_generation) return &older;
  }
  return nullptr;
}

SearchRun::Leg SearchRun::LegOf(const std::vector<BoundVector>& queries, size_t query, uint32_t generation) const {
  Leg leg;
  leg.query = query;
  leg.generation = generation;
  leg.older = OlderOf(queries[query], generation);
  leg.result = SearchResult();
  if (leg.older == nullptr) {
    leg.route = RouteOf(queries[query], generation);
    return leg;
  }
  FusedRoute fused = state_.reach.FusedTo(generation_, generation, call_.adapter_mode);
  leg.route = std::move(fused.route);
  leg.share = leg.route.open() ? fused.older : OlderShare{1, false};
  return leg;
}

absl::Status SearchRun::BindOlder(const Leg& leg, BoundLeg* bound) {
  const Space& space = state_.Find(leg.generation)->space;
  LC_ASSIGN_OR_RETURN(bound->older_query, BoundQuery::Make(space, space, leg.older->z));
  bound->older_request.query = &*bound->older_query;
  if (leg.conditioned()) {
    LC_ASSIGN_OR_RETURN(const RowSamplePtr rows, samples_->Of(*view_, leg.generation));
    bound->whitened_query = Whitened(*rows, space, leg.older->z);
    // A graph is walked by queries that are like its rows. Whitened ones are not.
    if (bound->whitened_query && call_.exact) bound->older_request.query = &*bound->whitened_query;
  }
  SetRequest(leg.generation, leg.fused() ? FusedCandidates(HitsRanked()) : HitsRanked(), &bound->older_request);
  return absl::OkStatus();
}

absl::StatusOr<SearchResult> SearchRun::FinishOlder(const BoundVector& query, const Leg& leg, const BoundLeg& bound,
                                                    std::span<const SearchRequest> requests,
                                                    std::span<absl::StatusOr<SearchResult>> results) {
  LC_DCHECK(samples_ != nullptr && leg.older != nullptr);
  for (const absl::StatusOr<SearchResult>& result : results) LC_RETURN_IF_ERROR(result.status());
  LC_ASSIGN_OR_RETURN(const RowSamplePtr rows, samples_->Of(*view_, leg.generation));
  if (!leg.fused()) {
    LC_ASSIGN_OR_RETURN(const RowSamplePtr own, samples_->Of(*view_, generation_));
    const Space& space = state_.Find(generation_)->space;
    LC_ASSIGN_OR_RETURN(const BoundQuery own_query, BoundQuery::Make(space, space, query.z));
    Rescale(rows->DistancesTo(*bound.older_query), own->DistancesTo(own_query), &*results[0]);
    return std::move(results[0]);
  }
  RowSamplePtr seen = rows;
  const BoundQuery* newer = requests[1].query;
  if (leg.route.item != nullptr) {
    seen = samples_->CarriedOf(rows, *leg.route.item);
    newer = requests[1].adapted_query;
  }
  const BoundQuery& older = bound.whitened_query ? *bound.whitened_query : *bound.older_query;
  const QueryPair pair{leg.older->z, older, *newer, leg.route.item == nullptr ? nullptr : &leg.route.item->adapter};
  const DistanceFusion fusion = FusionOver(BasisOf(*rows, *seen, pair), leg.share);
  const FusedLeg both(&*view_, collection_->store(), collection_->number(), &context_);
  return both.Finish(fusion, older, requests[0], requests[1], *std::move(results[0]), *std::move(results[1]),
                     HitsRanked());
}

}  // namespace lightcone::server
