// The beam search over a graph (graph.h), filtered in one of two ways: rows that do not pass lead the way but are no
// results, which is right when nearly all rows pass; or the walk goes by passing rows alone.
// Threads: reentrant; the marks of visited rows are kept per thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "geometry/bound_query.h"
#include "geometry/kernels.h"
#include "index/beam.h"
#include "index/graph.h"
#include "index/segment.h"

namespace lightcone {

struct WalkLimits {
  int ef = 128;                 // breadth: accepted rows kept
  int64_t evaluations_max = 0;  // the walk gives up beyond
};

struct WalkResult {
  std::vector<ScoredRow> rows;  // up to ef best accepted rows found, no particular order
  int64_t evaluations = 0;      // scores computed
  bool gave_up = false;         // `rows` is not to be trusted: scan instead
};

// scores[i] = score of row ids[i], i < n; higher is nearer.
using RowScorer = absl::FunctionRef<void(const uint32_t* ids, size_t n, float* scores)>;

// By the rows themselves. Refers to what it is made of.
struct FloatRows {
  const RowBlock& block;
  const BoundQuery& query;
  void operator()(const uint32_t* ids, size_t n, float* scores) const {
    ScoreRowsGathered(query, block.rows, block.stride, block.factors, ids, n, scores);
  }
};

// `interrupted` is asked every few thousand evaluations; its error is returned. `accept` is called at most once a row.
absl::StatusOr<WalkResult> WalkGraph(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                     absl::FunctionRef<bool(uint32_t)> accept,
                                     absl::FunctionRef<absl::Status()> interrupted);

// The same among the rows that pass(row) alone, as in ACORN (Patel et al., arXiv 2403.04871): only those are scored, and
// where too few links of a row lead to any, the links of the links do. So the walk's cost hardly depends on how many
// rows pass or on whether they lie near the query. It begins at `seeds`, passing rows spread over the graph, and where
// the upper layers lead. `accept` is asked about passing rows alone.
absl::StatusOr<WalkResult> WalkPassing(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                       std::span<const uint32_t> seeds, absl::FunctionRef<bool(uint32_t)> pass,
                                       absl::FunctionRef<bool(uint32_t)> accept,
                                       absl::FunctionRef<absl::Status()> interrupted);

}  // namespace lightcone
