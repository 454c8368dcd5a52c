#include "index/search/leg_search.h"

#include <utility>

#include "base/status.h"
#include "index/search/adapted_ranking.h"

namespace lightcone {

LegSearch::LegSearch(const ScopedRequest& scoped)
    : scoped_(scoped), k_(request().adapter == nullptr ? request().k : AdaptedCandidates(request())), candidates_(k_) {
  if (request().query != nullptr) coded_query_.emplace(query());
}

void LegSearch::Begin() {
  for (uint32_t index = 0; ok() && index < scoped_.scope.segments->size(); ++index) {
    if (scoped_.VisibleRows(segment(index)) == 0) continue;
    Bind(index);
    Continue(Search(index, PlanSegment({scoped_, segment(index), Scorer(index), k_})));
  }
}

absl::Status LegSearch::Search(uint32_t index, SegmentSearchPlan plan) {
  switch (plan.plan) {
    case SearchPlan::kWalk:
    case SearchPlan::kPostFilter: {
      auto& walks = plan.plan == SearchPlan::kWalk ? walks_ : post_filters_;
      walks.push_back({index, scoped_.VisibleRows(segment(index)), std::move(plan)});
      return absl::OkStatus();
    }
    case SearchPlan::kPassingWalk:
      return WalkAlone(index, plan);
    case SearchPlan::kProbe:
      Note(index, plan, false);
      return Probe(index, plan);
    case SearchPlan::kScan:
    case SearchPlan::kPassingScan:
      break;
  }
  Note(index, plan, false);
  return Scan(index, plan.plan, plan.error_share);
}

// A post-filter found too few rows. A filter by ids can still walk the graph by itself; others leave only a scan.
absl::Status LegSearch::ReplacePostFilter(const PlannedWalk& walk) {
  const uint32_t index = walk.index;
  Bind(index);
  if (request().ids == nullptr) {
    Note(index, walk.plan, true);
    return Scan(index, walk.plan.fallback, walk.plan.error_share);
  }
  const SegmentSearchPlan plan = PlanSegment({scoped_, segment(index), Scorer(index), k_, /*fell_short=*/true});
  if (plan.plan == SearchPlan::kWalk) return WalkAlone(index, plan);
  Note(index, plan, true);
  return Scan(index, plan.plan, plan.error_share);
}

void LegSearch::Bind(uint32_t index) {
  if (bound_ == index) return;
  bound_ = index;
  const PinnedSegment& pinned = segment(index);
  error_ = query().ScoreErrorMax(pinned.bias_max);
  if (pinned.codes() == nullptr) return;
  coded_query_->Bind(*pinned.codes());
  any_coded_ = true;
}

void LegSearch::Note(uint32_t index, const SegmentSearchPlan& plan, bool fell_back) {
  if (!request().profile) return;
  result_.segments.push_back({segment(index).segment->id(), plan.plan, segment(index).rows, plan.passing_share,
                              fell_back, plan.breadth, plan.reason});
}

}  // namespace lightcone
