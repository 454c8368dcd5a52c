// Partitions rows into the lists of an IVF segment. FAISS's k-means trains the centres; each row goes into the list of
// the centre that is nearest in the rows' own geometry.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "geometry/metric.h"
#include "geometry/row_factors.h"
#include "index/ivf/lists.h"

namespace lightcone {

struct ListSettings {
  int lists = 0;  // 0: by the number of rows; never more than there are rows
  int threads = 1;
  bool rough =
      false;  // centres from fewer rows, moved less often: about a quarter of the work, lists that are less even
};

// The number of lists for this many rows: scoring the centres costs about as much as scanning the probed lists.
uint32_t DefaultLists(int64_t rows);

struct RowValues {
  std::span<const float> z;
  RowFactors factors;
};

// Deterministic with one thread. Several threads call `row(i)`, i < rows. CANCELLED soon after `stop` says so;
// RESOURCE_EXHAUSTED without memory or threads. REQUIRES: 1 <= rows < 2^31.
absl::StatusOr<Partition> PartitionRows(const Space& space, int64_t rows, absl::FunctionRef<RowValues(int64_t)> row,
                                        const ListSettings& settings, const std::function<bool()>& stop);

}  // namespace lightcone
