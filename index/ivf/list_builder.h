// Partitions rows into the lists of an IVF segment: centres trained by FAISS's k-means, each row in the list of the
// centre that is nearest in the rows' own geometry. Threads: reentrant.
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

// How many lists suit so many rows: scoring the centres then costs about what scanning the probed lists does.
uint32_t DefaultLists(int64_t rows);

struct RowValues {
  std::span<const float> z;
  RowFactors factors;
};

// Deterministic with one thread. `row(i)` gives row i < rows, from several threads. CANCELLED soon after `stop` says
// so; RESOURCE_EXHAUSTED without memory or threads. REQUIRES: 1 <= rows < 2^31.
absl::StatusOr<Partition> PartitionRows(const Space& space, int64_t rows, absl::FunctionRef<RowValues(int64_t)> row,
                                        const ListSettings& settings, const std::function<bool()>& stop);

}  // namespace lightcone
