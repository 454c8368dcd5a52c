// Builds an HNSW graph over rows of a segment, by the distances of their space.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/codes.h"
#include "geometry/metric.h"
#include "index/rows/segment.h"

namespace lightcone {

struct GraphSettings {
  int m = 16;                 // links of a row; 2m on the base layer
  int ef_construction = 200;  // breadth of the search for a row's neighbours
  int threads = 1;
};

// The bytes of a graph (graph.h) over rows 0 .. rows - 1 of `block`, or of `codes` where they are given: a graph that
// is walked by codes is built by codes, which reads a quarter of the memory. Deterministic with one thread. CANCELLED
// soon after `stop` says so; RESOURCE_EXHAUSTED without memory. REQUIRES: 1 <= rows <= Graph::kRowsMax.
absl::StatusOr<std::string> BuildGraph(const Space& space, const RowBlock& block, const CodeBlock* codes, int64_t rows,
                                       const GraphSettings& settings, const std::function<bool()>& stop);

// Rows from which walks of a graph over these rows find what lies apart: rows that are far from one another and, of
// inner products, the longest ones, which rank high for many queries and to which few rows link. At most
// Graph::kEntriesMax. Deterministic. RESOURCE_EXHAUSTED without memory. REQUIRES as BuildGraph.
absl::StatusOr<std::vector<uint32_t>> ChooseEntries(const Space& space, const RowBlock& block, const CodeBlock* codes,
                                                    int64_t rows);

}  // namespace lightcone
