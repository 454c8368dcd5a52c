// The legs of searches whose queries carry vectors of older generations.
#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/bound_query.h"
#include "server/engine/search/fused_leg.h"
#include "server/engine/search/search.h"

namespace lightcone::server {
namespace {

constexpr int64_t kHitsTogetherMax = 1 << 21;  // 84 MB for each of two requests

}  // namespace

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

int64_t SearchRun::HitsAsked(const Leg& leg, size_t legs) const {
  const int64_t candidates = FusedCandidates(HitsRanked());
  if (!call_.exact || !leg.conditioned()) return candidates;
  // FusedLeg will want every row. Legs that ask together share their scans, as long as memory allows it.
  const int64_t all = view_->VisibleRows(leg.generation, view_generation_) + 1;
  return all * static_cast<int64_t>(legs) <= kHitsTogetherMax ? std::max(candidates, all) : candidates;
}

absl::Status SearchRun::BindOlder(const Leg& leg, BoundLeg* bound) {
  const Space& space = state_.Find(leg.generation)->space;
  LC_ASSIGN_OR_RETURN(bound->older_query, BoundQuery::Make(space, space, leg.older->z));
  bound->older_request.query = &*bound->older_query;
  SetRequest(leg.generation, leg.fused() ? bound->hits_asked : HitsRanked(), &bound->older_request);
  return absl::OkStatus();
}

absl::StatusOr<SearchResult> SearchRun::FinishOlder(const BoundVector& query, const Leg& leg, const BoundLeg& bound,
                                                    std::span<const SearchRequest> requests,
                                                    std::span<absl::StatusOr<SearchResult>> results,
                                                    FeaturesByGeneration* features) {
  LC_DCHECK(samples_ != nullptr && leg.older != nullptr);
  for (const absl::StatusOr<SearchResult>& result : results) LC_RETURN_IF_ERROR(result.status());
  LC_ASSIGN_OR_RETURN(const RowSamplePtr rows, samples_->Of(*view_, leg.generation));
  LC_ASSIGN_OR_RETURN(
      const ScaleSamplePtr scale,
      samples_->ScaleOf(*view_, leg.generation, generation_, rows, state_.reach.Adapters(leg.generation, generation_)));
  const Space& space = state_.Find(generation_)->space;
  LC_ASSIGN_OR_RETURN(const BoundQuery own_query, BoundQuery::Make(space, space, query.z));
  if (!leg.fused()) {
    Rescale(scale->older->DistancesTo(*bound.older_query), scale->newer->DistancesTo(own_query), &*results[0]);
    return std::move(results[0]);
  }
  RowSamplePtr seen = rows;
  NewerQuery newer{requests[1].query, nullptr, &own_query};
  if (leg.route.item != nullptr) {
    seen = samples_->CarriedOf(rows, *leg.route.item);
    newer = {requests[1].adapted_query, &leg.route.item->adapter, &own_query};
  }
  OlderQuery older{leg.older->z, &*bound.older_query};
  std::optional<QueryLikeness> likeness;
  OlderShare share = leg.share;
  if (share.conditioned) {
    const LikenessKernel* const kernel = rows->likeness();
    // The rows have become too few, or all alike, since the validation.
    if (kernel == nullptr) share = OlderShare();
    if (kernel != nullptr) older.likeness = &likeness.emplace(kernel->Of(leg.older->z));
    (*features)[leg.generation].Use(rows);
  }
  const DistanceFusion fusion = FusionOver(BasisOf({*rows, *seen, *scale}, older, newer), share);
  const FusedLeg both(&*view_, collection_->store(), collection_->number(), &context_, &(*features)[leg.generation],
                      &large_legs_mu_);
  return both.Finish(fusion, older, requests[0], requests[1], *std::move(results[0]), *std::move(results[1]),
                     HitsRanked());
}

}  // namespace lightcone::server
