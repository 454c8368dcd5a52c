// Estimates what the plans for a filtered segment cost, and chooses the cheapest. Rows do not pass because the view
// does not serve them (deleted, superseded) or because a filter leaves them out. Plans find the same hits, as far as a
// walk is trusted; they differ in cost.
//
//   scan          scores every row in order, and asks rows that could be hits whether they pass
//   passing scan  pre-filtering: asks rows first, and scores those that pass
//   walk          walks the graph by all rows, and asks those that enter the candidate queue
//   passing walk  walks the graph by passing rows alone (graph_walk.h)
//   post-filter   walks the graphs of all segments together without a filter, with a greater `ef` where needed, and
//   asks
//                 the rows found. Fast where enough near rows pass; where fewer do, it falls short. Searches by ids
//                 then plan each graph again. An expensive filter walks each graph alone, and scans where that falls
//                 short.
// A scan of the passing rows replaces a walk where a sample shows that they lie away from the query (plan.cc).
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "index/api/search.h"

namespace lightcone {

struct FilterFacts {
  int64_t rows = 0;
  double cheap_share = 1;   // expected share of rows that the view serves and whose ids are asked for
  double share = 1;         // expected share of rows that the request's `keep` lets through besides
  bool by_ids = false;      // the request has a filter by ids
  bool listed = false;      // passing rows are found without asking every row
  bool asks = false;        // the request has a `keep`
  bool fell_short = false;  // a post-filter found too few rows that pass
  int64_t breadth = 0;      // `ef` of a walk; 0: no walk is possible
  bool for_recall = false;  // `ef` is what k hits need for the request's target recall
  int64_t needed = 0;       // `ef` measured to find enough without a filter, of a search that names none; 0: unknown
  int64_t k = 0;            // hits
};

struct ChosenPlan {
  SearchPlan plan = SearchPlan::kScan;
  int ef = 0;  // breadth of a walk
};

// REQUIRES: rows >= 1; shares in [0, 1].
ChosenPlan ChoosePlan(const FilterFacts& facts);

// The cheaper of the two scans.
SearchPlan PlanOfScan(const FilterFacts& facts);

// The cost of a walk by all rows, in rows scored one after the other.
double WalkCost(double ef);

// The number of rows found by a post-filter's walks that have to pass before the walks are trusted. It is more than k,
// so that the nearest k lie well within the walks' breadth, at whose edge rows are missed.
int64_t LeastOfPostFilter(int64_t k);

// The number of scores at which a walk has cost more than the scan that would have found everything.
int64_t WalkEvaluationsMax(const FilterFacts& facts);

}  // namespace lightcone
