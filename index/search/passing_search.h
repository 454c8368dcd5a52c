// Searches a segment of which not every row can be a hit: by the rows that pass, where that is cheaper than to look at
// all of them (plan_cost.h).
// Threads: reentrant.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "geometry/codes.h"
#include "index/api/collection_index.h"
#include "index/graph/graph_walk.h"
#include "index/search/candidates.h"
#include "index/search/search_context.h"

namespace lightcone {

struct SegmentTurn {
  const SearchContext& context;
  uint32_t index = 0;                // of the segment, in the context's scope
  const CodeQuery* coded = nullptr;  // turned to the segment's codes; nullptr: it has none
  double error = 0;                  // of float32 scores
  int64_t wanted = 0;                // hits that all segments give between them
  int64_t breadth = 0;               // of a walk; 0: there is no graph to take
  bool fell_short = false;           // a walk whose results were filtered in the end has met too few that pass
};

// A walk by all rows whose results are filtered in the end. Several segments take theirs together.
struct LateFilter {
  WalkLimits limits;
  double share = 1;  // of the rows that pass, expected
};

enum class Passed {
  kDone,    // what the segment has is among the candidates
  kLate,    // the rows that a walk meets are to be filtered in the end
  kAll,     // all rows are to be looked at, by a graph where there is one
  kToScan,  // all rows are to be scanned
};

// What was done is in `result`'s profile, unless it is kLate, with `late` filled in, or kAll. CANCELLED,
// DEADLINE_EXCEEDED.
absl::StatusOr<Passed> SearchPassing(const SegmentTurn& turn, CandidateSet& candidates, SearchResult& result,
                                     LateFilter& late);

}  // namespace lightcone
