// Plans the search of one segment. PlanSegment alone decides how a segment is searched: probe.cc, scan.cc and walk.cc
// carry the plan out, and its fallback where a walk finds too few rows. plan_cost.h says what each plan costs.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <vector>

#include "index/graph/graph_walk.h"
#include "index/search/scoped_request.h"

namespace lightcone {

struct PlanInput {
  const ScopedRequest& scoped;
  const PinnedSegment& segment;
  ScoredRows score;
  int64_t k = 0;  // rows that all segments give together
  // A post-filter found too few rows in this segment. Only searches by ids plan a segment again then.
  bool fell_short = false;
};

struct SegmentSearchPlan {
  SearchPlan plan = SearchPlan::kScan;
  SearchPlan fallback = SearchPlan::kScan;  // kScan or kPassingScan, after a walk that finds too few rows
  int64_t breadth = 0;                      // `ef` of a walk, or the number of lists to probe
  int64_t evaluations_max = 0;              // scores after which a walk gives up
  double passing_share = 1;                 // share of the rows that is expected to pass
  double error_share = 1;                   // share of the codes' error bound that a passing scan allows for
  bool alone = false;                       // The walk needs its whole breadth for itself.
  BreadthReason reason = BreadthReason::kExact;
  std::vector<uint32_t> seeds = {};  // kPassingWalk: passing rows, spread over the segment
};

// REQUIRES: the view serves a row of the segment.
SegmentSearchPlan PlanSegment(const PlanInput& input);

}  // namespace lightcone
