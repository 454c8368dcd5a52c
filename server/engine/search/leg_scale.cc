#include "server/engine/search/leg_scale.h"

#include <algorithm>

#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone::server {

absl::Status CheckIsGeneration(const CollectionState& state, uint32_t generation) {
  if (generation == 0 || state.Find(generation) != nullptr) return absl::OkStatus();
  return InvalidField("scale_generation", StrCat(generation), StrCat("0 .. ", state.record.last_generation));
}

absl::Status CheckScaleGeneration(const CollectionState& state, uint32_t generation) {
  LC_RETURN_IF_ERROR(CheckIsGeneration(state, generation));
  if (generation == 0) return absl::OkStatus();
  if (state.reach.OwnRelevance(generation) != nullptr) return absl::OkStatus();
  return FailedPrecondition(
      StrCat("scale_generation: no validation has measured how near relevant items are to "
             "queries of generation ",
             generation, "; validate it, or a later generation, with probes"));
}

LegScale::LegScale(const CollectionState& state, uint32_t scale_generation, const RelevanceCurve* relevance,
                   bool is_own)
    : relevance_(relevance),
      own_(scale_generation == 0 ? nullptr : state.reach.OwnRelevance(scale_generation)),
      is_own_(is_own && scale_generation != 0) {}

std::optional<double> LegScale::RelevanceAt(double distance) const {
  return relevance_ == nullptr ? std::nullopt : std::optional(relevance_->ChanceAt(distance));
}

std::optional<double> LegScale::ScaledDistance(double distance) const {
  if (is_own_) return distance;
  return translates() ? std::optional(relevance_->Translate(distance, *own_)) : std::nullopt;
}

double LegScale::BoundOf(double distance_max) const {
  LC_DCHECK(translates());
  return is_own_ ? distance_max : own_->Translate(distance_max, *relevance_);
}

std::optional<double> BoundOnScale(const SearchCall& call) {
  if (!call.score_threshold) return call.distance_max;
  return std::min(-*call.score_threshold, call.distance_max.value_or(-*call.score_threshold));
}

}  // namespace lightcone::server
