#include "index/search/plan_cost.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"

namespace lightcone {
namespace {

// Costs, in rows scored one after the other. They decide only speed, and how surely a walk finds what it should.
constexpr double kEvaluationsPerResult = 24;  // rows that a walk scores for each accepted result
constexpr double kRandomRow = 2;              // a row at a random address
constexpr double kAskedRow = 0.5;             // asking in order whether the view serves a row and its id is asked for
constexpr double kAskedInWalk = 0.15;         // rows that a walk by passing rows asks for each that it scores
// A passing scan has to be this much cheaper: a scan of all rows serves several searches at once.
constexpr double kWorthPicking = 0.8;

// Shares from which on a walk by all rows is as good as one by passing rows. Rows that a view does not serve lie
// anywhere; those that a filter leaves out may be just the near ones.
constexpr double kMostOfAny = 0.5;
constexpr double kNearlyAll = 0.9;
// A post-filter's walks find, on average, this many times the hits. With less than kPostFilterLeast they are not
// trusted.
constexpr double kPostFilterMargin = 3, kPostFilterLeast = 1.5;
constexpr double kPostFilterBreadthMax = 8;  // multiple of the breadth asked for
// A passing walk misses rows that begin away from the query, all around it, and cannot tell (recall 0.5 where the
// nearest twentieth does not pass). So it has to be this much cheaper than a walk that can.
constexpr double kPassingWalkDoubt = 1.5;

// Cost of a passing scan for each row of the segment. It reads rows in order: the more rows pass, the less random are
// their addresses.
double PassingScanCost(const FilterFacts& f) {
  return f.cheap_share * (kRandomRow - (kRandomRow - 1) * f.cheap_share) + (f.listed ? 0 : kAskedRow);
}

// Cost of the cheaper scan.
double ScanCost(const FilterFacts& f) { return static_cast<double>(f.rows) * std::min(1.0, PassingScanCost(f)); }

}  // namespace

SearchPlan PlanOfScan(const FilterFacts& f) {
  return PassingScanCost(f) < kWorthPicking ? SearchPlan::kPassingScan : SearchPlan::kScan;
}

double WalkCost(double ef) { return kEvaluationsPerResult * kRandomRow * ef; }

ChosenPlan ChoosePlan(const FilterFacts& f) {
  LC_DCHECK(f.rows >= 1 && f.share >= 0 && f.share <= 1 && f.cheap_share >= 0 && f.cheap_share <= 1);
  ChosenPlan best{PlanOfScan(f), 0};
  if (f.breadth <= 0) return best;
  double least = ScanCost(f);
  const double breadth = static_cast<double>(f.breadth);
  const auto consider = [&](SearchPlan plan, double ef, double cost) {
    if (cost >= least) return false;
    best = {plan, static_cast<int>(std::min(ef, 1e9))};
    least = cost;
    return true;
  };
  const bool filtered = f.asks || (f.by_ids && f.cheap_share < kNearlyAll);
  if (filtered && !f.fell_short && f.share > 0) {
    const double enough = std::ceil(kPostFilterMargin * static_cast<double>(f.k) / f.share);
    const double needed = static_cast<double>(f.needed) / f.share;
    const double ef = std::max({f.for_recall ? breadth / f.share : breadth, needed, enough});
    const bool chosen = ef <= kPostFilterBreadthMax * breadth && consider(SearchPlan::kPostFilter, ef, WalkCost(ef));
    if (chosen && f.asks) return best;  // Post-filters ask the fewest rows.
  }
  const double kept = f.cheap_share > 0 ? f.share / f.cheap_share : 0;
  if (kept <= 0) return best;
  const double walk = WalkCost(breadth);
  if (f.fell_short || f.cheap_share >= (f.by_ids ? kNearlyAll : kMostOfAny)) {
    consider(SearchPlan::kWalk, breadth, walk / f.share);
  } else {
    const double doubt = f.by_ids ? kPassingWalkDoubt : 1;
    consider(SearchPlan::kPassingWalk, breadth, walk * (1 + kAskedInWalk / f.cheap_share) / kept * doubt);
  }
  return best;
}

int64_t LeastOfPostFilter(int64_t k) {
  return static_cast<int64_t>(std::ceil(kPostFilterLeast * static_cast<double>(k)));
}

int64_t WalkEvaluationsMax(const FilterFacts& f) { return static_cast<int64_t>(ScanCost(f) / kRandomRow); }

}  // namespace lightcone
