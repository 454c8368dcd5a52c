// The beam search over a graph (graph.h), with one of two filters. Rows that do not pass lead the way but are no
// results, which suits filters that nearly all rows pass; or the walk goes by passing rows alone.
// Threads: reentrant; each thread has a visited set.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "geometry/bound_query.h"
#include "geometry/code_kernels.h"
#include "geometry/kernels.h"
#include "index/graph/beam.h"
#include "index/graph/graph.h"
#include "index/rows/segment.h"

namespace lightcone {

struct WalkLimits {
  int ef = 128;                 // breadth of the candidate queue: accepted rows kept
  int64_t evaluations_max = 0;  // evaluations after which the walk gives up
  int64_t leave_out = -1;       // row that WalkGraph ignores; -1: none
};

struct WalkResult {
  std::vector<ScoredRow> rows;  // up to ef best accepted rows found, no particular order
  int64_t evaluations = 0;      // scores computed
  bool gave_up = false;         // `rows` are not the best: scan instead
};

// The memory that scores of rows are read from, for prefetching. Empty: no prefetching.
struct RowBytes {
  const void* first = nullptr;
  size_t stride = 0;
};

// scores[i] = score of row ids[i], i < n; higher is nearer. Refers to the function that it is made of, and to the rows
// that the function's bytes() names.
struct RowScorer {
  template <typename Score>
  RowScorer(const Score& score) : score(score) {
    if constexpr (requires { score.bytes(); }) bytes = score.bytes();
  }
  absl::FunctionRef<void(const uint32_t* ids, size_t n, float* scores)> score;
  RowBytes bytes;
};

// Scores rows by their codes, if they have some, else by their vectors. Refers to its members; `coded` is bound to the
// codes.
struct ScoredRows {
  const RowBlock& block;
  const BoundQuery& query;
  const CodeBlock* codes = nullptr;
  const CodeQuery* coded = nullptr;

  void operator()(const uint32_t* ids, size_t n, float* scores) const {
    if (codes != nullptr) {
      ScoreCodesGathered(*coded, codes->rows, codes->stride, ids, n, scores);
    } else {
      ScoreRowsGathered(query, block.rows, block.stride, block.factors, ids, n, scores);
    }
  }
  RowBytes bytes() const {
    return codes != nullptr ? RowBytes{codes->rows, codes->stride} : RowBytes{block.rows, block.stride * sizeof(float)};
  }
};

// Accepts every row, so that a walk asks nobody.
struct EveryRow {
  bool operator()(uint32_t) const { return true; }
};

// One of several walks for one query whose scores are on one scale.
struct WalkTask {
  const Graph* graph = nullptr;
  ScoredRows score;
  std::function<bool(uint32_t)> accept;  // empty: EveryRow
  WalkLimits limits;                     // limits of a walk of this graph alone
  double weight = 1;                     // the graph's share of the rows wanted, on any scale
};

// Walks several graphs with one candidate queue of the greatest `ef` among them. Each walk first finds its way with its
// share of that breadth (at least 10 rows, up to 40 for inner products). Then it goes on only where it finds rows that
// belong to the `ef` best of all graphs. One result a task, with its graph's rows among the best. Where a walk gave up,
// all rows may be needed. Errors as WalkGraph.
absl::StatusOr<std::vector<WalkResult>> WalkTogether(std::span<const WalkTask> tasks,
                                                     absl::FunctionRef<absl::Status()> interrupted);

// Walks one graph. Asks `interrupted` every few thousand evaluations and returns its error. Calls `accept` at most once
// a row.
absl::StatusOr<WalkResult> WalkGraph(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                     absl::FunctionRef<bool(uint32_t)> accept,
                                     absl::FunctionRef<absl::Status()> interrupted);
absl::StatusOr<WalkResult> WalkGraph(const Graph& graph, RowScorer score, const WalkLimits& limits, EveryRow,
                                     absl::FunctionRef<absl::Status()> interrupted);

// Walks among passing rows alone, as in ACORN (Patel et al., arXiv 2403.04871): only they are scored. Where too few
// links of a row lead to passing rows, the links of its links do. So the cost hardly depends on how many rows pass, or
// where they lie. The walk begins at `seeds`, passing rows spread over the graph, and where the upper layers lead.
// `accept` is asked about passing rows alone.
absl::StatusOr<WalkResult> WalkPassing(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                       std::span<const uint32_t> seeds, absl::FunctionRef<bool(uint32_t)> pass,
                                       absl::FunctionRef<bool(uint32_t)> accept,
                                       absl::FunctionRef<absl::Status()> interrupted);

}  // namespace lightcone
