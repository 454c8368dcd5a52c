// The beam search over a graph (graph.h), filtered: rows that `accept` refuses lead the way but are no results.
// Threads: reentrant; the marks of visited rows are kept per thread.
#pragma once

#include <cstdint>
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

}  // namespace lightcone
