// The legs of searches whose queries carry vectors of older generations.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
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

absl::Status SearchRun::SetScale(const BoundVector& query, Leg* leg) const {
  const Reach& reach = state_.reach;
  const RelevanceCurve* relevance = nullptr;
  if (leg->by_older()) {
    relevance = reach.OwnRelevance(leg->generation);
  } else {
    const std::optional<OlderShare> share = leg->fused() ? std::optional(leg->share) : std::nullopt;
    relevance = reach.RelevanceOf(query.generation, leg->generation, leg->route, share);
  }
  const bool by_own = leg->by_older() || query.generation == leg->generation;
  leg->scale = LegScale(state_, scale_generation_, relevance, by_own && leg->generation == scale_generation_);
  return SetBound(leg);
}

absl::Status SearchRun::SetBound(Leg* leg) const {
  const std::optional<double> bound = scale_generation_ != 0 ? BoundOnScale(call_) : std::nullopt;
  const bool no_scale = bound && !leg->scale.translates();
  if (no_scale || (call_.relevance_min && !leg->scale.tells_relevance())) {
    const std::string scale =
        no_scale ? StrCat(", or those of generation ", scale_generation_, " to its own queries") : "";
    return FailedPrecondition(StrCat(no_scale ? "scale_generation" : "relevance_min",
                                     ": no validation has measured how near relevant items of generation ",
                                     leg->generation, " are by the way that this query takes to them", scale));
  }
  if (bound) leg->distance_max = leg->scale.BoundOf(*bound);
  return absl::OkStatus();
}

absl::Status SearchRun::ForgetScale(Leg* leg) const {
  leg->scale = LegScale(state_, scale_generation_, nullptr, false);
  return SetBound(leg);
}

void SearchRun::TellScales(std::span<const Leg> legs, SearchAnswer* answer) const {
  answer->scale_generation = scale_generation_;
  if (scale_generation_ == 0) return;
  std::set<std::tuple<uint32_t, bool, double>> told;
  std::set<uint32_t> unscaled;
  for (const Leg& leg : legs) {
    if (!leg.route.open() && leg.older == nullptr) continue;
    if (!leg.scale.translates()) unscaled.insert(leg.generation);
    if (!leg.distance_max || !told.insert({leg.generation, leg.fused(), *leg.distance_max}).second) continue;
    answer->bounds.push_back({leg.generation, leg.fused(), *leg.distance_max});
  }
  answer->unscaled.assign(unscaled.begin(), unscaled.end());
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

absl::StatusOr<SearchResult> SearchRun::FinishOlder(const BoundVector& query, const BoundLeg& bound, Leg* to,
                                                    std::span<const SearchRequest> requests,
                                                    std::span<absl::StatusOr<SearchResult>> results,
                                                    FeaturesByGeneration* features) {
  const Leg& leg = *to;
  LC_DCHECK(samples_ != nullptr && leg.older != nullptr);
  for (const absl::StatusOr<SearchResult>& result : results) LC_RETURN_IF_ERROR(result.status());
  LC_ASSIGN_OR_RETURN(const RowSamplePtr rows, samples_->Of(*view_, leg.generation));
  LC_ASSIGN_OR_RETURN(
      const ScaleSamplePtr scale,
      samples_->ScaleOf(*view_, leg.generation, generation_, rows, state_.reach.Adapters(leg.generation, generation_)));
  const Space& space = state_.Find(generation_)->space;
  LC_ASSIGN_OR_RETURN(const BoundQuery own_query, BoundQuery::Make(space, space, query.z));
  if (!leg.fused()) {
    to->rescaled =
        Rescale(scale->older->DistancesTo(*bound.older_query), scale->newer->DistancesTo(own_query), &*results[0]);
    return std::move(results[0]);
  }
  // No validation measures fused distances that are on no scale of the new generation's.
  if (!scale->TellsScale()) LC_RETURN_IF_ERROR(ForgetScale(to));
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
    if (kernel == nullptr) {
      share = OlderShare();
      LC_RETURN_IF_ERROR(ForgetScale(to));
    }
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
