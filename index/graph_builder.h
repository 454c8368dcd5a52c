// Builds an HNSW graph with FAISS over rows that stay where they are: FAISS sees a storage whose distances come from
// our own kernels, so it copies no vector and runs at the kernels' speed. The only file that knows FAISS.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "geometry/metric.h"
#include "index/segment.h"

namespace lightcone {

struct GraphSettings {
  int m = 16;                 // links a row; 2m on the base layer
  int ef_construction = 200;  // breadth while inserting
  int threads = 1;
};

// The bytes of a graph (graph.h) over rows 0 .. rows - 1 of `block`. Deterministic with one thread.
// CANCELLED soon after `stop` says so (asked every few thousand rows); RESOURCE_EXHAUSTED without memory.
// REQUIRES: 1 <= rows < 2^31.
absl::StatusOr<std::string> BuildGraph(const Space& space, const RowBlock& block, int64_t rows,
                                       const GraphSettings& settings, const std::function<bool()>& stop);

}  // namespace lightcone
