#include "index/filter_plan.h"

#include <algorithm>
#include <cmath>

namespace lightcone {
namespace {

// What things cost, in rows scored one after the other. They decide only speed, never which rows are found.
// A walk of breadth ef scores about so many rows per accepted result, each at a random address.
constexpr double kEvaluationsPerResult = 24;
constexpr double kRandomRow = 2;
constexpr double kAskedRow = 0.5;  // whether the view serves it and its id is asked for, in order
// A walk by passing rows asks many for each that it scores.
constexpr double kAskedInWalk = 0.15;

// From here on a walk by all rows is as good as one by passing rows alone. Rows that a view does not serve lie anywhere;
// those that a filter leaves out may be just those that are near.
constexpr double kMostOfAny = 0.5;
constexpr double kNearlyAll = 0.9;
// A walk whose results are filtered in the end finds so many times more than it has to on average.
constexpr double kPostFilterMargin = 2;
constexpr double kPostFilterBreadthMax = 4;  // times the breadth asked for

// Of the cheaper scan.
double ScanCost(const FilterFacts& f) {
  const double rows = static_cast<double>(f.rows);
  return rows * std::min(1.0, f.cheap_share * kRandomRow + (f.listed ? 0 : kAskedRow));
}

}  // namespace

SearchPlan PlanOfScan(const FilterFacts& f) {
  return ScanCost(f) < static_cast<double>(f.rows) ? SearchPlan::kPassingScan : SearchPlan::kScan;
}

ChosenPlan ChoosePlan(const FilterFacts& f) {
  ChosenPlan best{PlanOfScan(f), 0};
  if (f.breadth <= 0) return best;
  double least = ScanCost(f);
  const double breadth = static_cast<double>(f.breadth);
  const double walk = kEvaluationsPerResult * kRandomRow * breadth;
  const auto consider = [&](SearchPlan plan, double ef, double cost) {
    if (cost >= least) return false;
    best = {plan, static_cast<int>(std::min(ef, 1e9))};
    least = cost;
    return true;
  };
  if (f.asks && f.share > 0) {
    const double ef = std::max(breadth, std::ceil(kPostFilterMargin * static_cast<double>(f.wanted) / f.share));
    if (ef <= kPostFilterBreadthMax * breadth && consider(SearchPlan::kPostFilter, ef, walk * ef / breadth)) {
      return best;
    }
  }
  const double kept = f.cheap_share > 0 ? f.share / f.cheap_share : 0;
  if (kept <= 0) return best;
  if (f.cheap_share >= (f.by_ids ? kNearlyAll : kMostOfAny)) {
    consider(SearchPlan::kWalk, breadth, walk / f.share);
  } else {
    consider(SearchPlan::kPassingWalk, breadth, walk * (1 + kAskedInWalk / f.cheap_share) / kept);
  }
  return best;
}

int64_t WalkEvaluationsMax(const FilterFacts& f) { return static_cast<int64_t>(ScanCost(f) / kRandomRow); }

}  // namespace lightcone
