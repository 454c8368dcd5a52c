// Chooses how one segment is searched when not all of its rows can be hits: because the view does not serve them
// (deleted, superseded) or because a filter leaves them out. All ways give the same hits, as far as a walk is trusted;
// they differ in what they cost.
//
//   scan          every row is scored in order; one that could be a hit is asked whether it passes
//   passing scan  rows are asked first ("pre-filter"), and those that pass are scored
//   walk          the graph is walked by all rows; those that enter the beam are asked
//   passing walk  the graph is walked by passing rows alone ("in the walk"; graph_walk.h)
//   post-filter   the graphs of all segments are walked as one without a filter, broader where it has to be; the rows
//                 found are asked. Right where enough of the rows that are near pass: where fewer do, it falls short.
//                 By ids each graph is walked by all rows then, as far as those that pass; for a filter that is
//                 expensive to ask each is walked as broadly, and scanned where that falls short as well
// Rows that pass and that a sample says lie away from the query are scanned (passing_search.cc).
// A segment with inverted lists is probed first (segment_search.cc).
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "index/api/collection_index.h"

namespace lightcone {

struct FilterFacts {
  int64_t rows = 0;
  double cheap_share = 1;   // of the rows, expected: those that the view serves and whose ids are among those asked for
  double share = 1;         // expected: those that the request's `keep` lets through besides
  bool by_ids = false;      // rows may not pass because of their ids, not only because the view does not serve them
  bool listed = false;      // passing rows are found without asking every row
  bool asks = false;        // there is a `keep`
  bool fell_short = false;  // a walk that was filtered in the end found too few rows that pass
  int64_t breadth = 0;      // of a walk; 0: none is to be taken
  bool for_recall = false;  // the breadth is what so many hits need for a recall that was asked for
  int64_t wanted = 0;       // hits
};

struct ChosenPlan {
  SearchPlan plan = SearchPlan::kScan;
  int ef = 0;  // of a walk
};

// REQUIRES: rows >= 1; shares in [0, 1].
ChosenPlan ChoosePlan(const FilterFacts& facts);

// The cheaper of the two scans.
SearchPlan PlanOfScan(const FilterFacts& facts);

// Of the rows that a walk filtered in the end has found, so many have to pass before it is trusted: more than the hits,
// so that the nearest of them are well within its breadth, at whose edge rows are missed.
int64_t LeastOfPostFilter(int64_t wanted);

// A walk that has scored so many rows has cost more than the scan that would have found everything.
int64_t WalkEvaluationsMax(const FilterFacts& facts);

}  // namespace lightcone
