#include "index/search/plan_cost.h"

#include <algorithm>
#include <cmath>

namespace lightcone {
namespace {

// What things cost, in rows scored one after the other. Which way is taken decides the speed, and how surely a
// walk finds what it should; hits always pass.
// A walk of breadth ef scores about so many rows per accepted result, each at a random address.
constexpr double kEvaluationsPerResultOfWalk = 24;
constexpr double kRandomRow = 2;
// A scan of those that pass has to be so much cheaper: one of all rows serves several searches at once.
constexpr double kWorthPicking = 0.8;
constexpr double kAskedRow = 0.5;  // whether the view serves it and its id is asked for, in order
// A walk by passing rows asks many for each that it scores.
constexpr double kAskedInWalk = 0.15;

// From here on a walk by all rows is as good as one by passing rows alone. Rows that a view does not serve lie
// anywhere; those that a filter leaves out may be just those that are near.
constexpr double kMostOfAny = 0.5;
constexpr double kNearlyAll = 0.9;
// A walk whose results are filtered in the end finds, on average, so many times the hits; with fewer than that many it
// is not trusted.
constexpr double kPostFilterMargin = 3, kPostFilterLeast = 1.5;
constexpr double kPostFilterBreadthMax = 8;  // times the breadth asked for
// A walk by passing rows alone does not find those that begin away from the query, all around it (recall .5 where the
// nearest twentieth does not pass), and cannot tell; so it has to be so much cheaper than one that can.
constexpr double kPassingWalkDoubt = 1.5;

// Of a scan of the rows that pass, for each row of the segment. They are read in order, so the more there are the less
// random their addresses.
double PassingScanCost(const FilterFacts& f) {
  return f.cheap_share * (kRandomRow - (kRandomRow - 1) * f.cheap_share) + (f.listed ? 0 : kAskedRow);
}

// Of the cheaper scan.
double ScanCost(const FilterFacts& f) { return static_cast<double>(f.rows) * std::min(1.0, PassingScanCost(f)); }

}  // namespace

SearchPlan PlanOfScan(const FilterFacts& f) {
  return PassingScanCost(f) < kWorthPicking ? SearchPlan::kPassingScan : SearchPlan::kScan;
}

ChosenPlan ChoosePlan(const FilterFacts& f) {
  ChosenPlan best{PlanOfScan(f), 0};
  if (f.breadth <= 0) return best;
  double least = ScanCost(f);
  const double breadth = static_cast<double>(f.breadth);
  const double walk = kEvaluationsPerResultOfWalk * kRandomRow * breadth;
  const auto consider = [&](SearchPlan plan, double ef, double cost) {
    if (cost >= least) return false;
    best = {plan, static_cast<int>(std::min(ef, 1e9))};
    least = cost;
    return true;
  };
  const bool filtered = f.asks || (f.by_ids && f.cheap_share < kNearlyAll);
  if (filtered && !f.fell_short && f.share > 0) {
    const double enough = std::ceil(kPostFilterMargin * static_cast<double>(f.wanted) / f.share);
    const double ef = std::max(f.for_recall ? breadth / f.share : breadth, enough);
    const bool chosen =
        ef <= kPostFilterBreadthMax * breadth && consider(SearchPlan::kPostFilter, ef, walk * ef / breadth);
    if (chosen && f.asks) return best;  // asks the fewest
  }
  const double kept = f.cheap_share > 0 ? f.share / f.cheap_share : 0;
  if (kept <= 0) return best;
  if (f.fell_short || f.cheap_share >= (f.by_ids ? kNearlyAll : kMostOfAny)) {
    consider(SearchPlan::kWalk, breadth, walk / f.share);
  } else {
    const double doubt = f.by_ids ? kPassingWalkDoubt : 1;
    consider(SearchPlan::kPassingWalk, breadth, walk * (1 + kAskedInWalk / f.cheap_share) / kept * doubt);
  }
  return best;
}

int64_t LeastOfPostFilter(int64_t wanted) {
  return static_cast<int64_t>(std::ceil(kPostFilterLeast * static_cast<double>(wanted)));
}

int64_t WalkEvaluationsMax(const FilterFacts& f) { return static_cast<int64_t>(ScanCost(f) / kRandomRow); }

}  // namespace lightcone
