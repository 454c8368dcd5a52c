// Builds an HNSW graph over rows that stay where they are: the distances of their space, by their codes or vectors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "geometry/codes.h"
#include "geometry/metric.h"
#include "index/rows/segment.h"

namespace lightcone {

struct GraphSettings {
  int m = 16;                 // links a row; 2m on the base layer
  int ef_construction = 200;  // breadth while inserting
  int threads = 1;
};

// The bytes of a graph (graph.h) over rows 0 .. rows - 1 of `block`, or of `codes` where they are given: what is walked
// by codes is built by codes, and reads a quarter of the memory. Deterministic with one thread.
// CANCELLED soon after `stop` says so (asked every few hundred rows); RESOURCE_EXHAUSTED without memory.
// REQUIRES: 1 <= rows <= Graph::kRowsMax.
absl::StatusOr<std::string> BuildGraph(const Space& space, const RowBlock& block, const CodeBlock* codes, int64_t rows,
                                       const GraphSettings& settings, const std::function<bool()>& stop);

}  // namespace lightcone
