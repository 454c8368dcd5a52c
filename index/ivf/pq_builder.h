// Trains the codebooks of product-quantised codes with FAISS, and codes rows with them.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "geometry/metric.h"
#include "index/ivf/list_builder.h"
#include "index/ivf/lists.h"

namespace lightcone {

struct PqSettings {
  int parts = 0;  // sub-quantisers, a byte a row each
  int threads = 1;
};

// The bytes of a file of codes (pq_codes.h) of the segment's rows, row(i), which lie in `lists`.
// CANCELLED soon after `stop` says so; RESOURCE_EXHAUSTED without memory. REQUIRES: the parts divide the dimension.
absl::StatusOr<std::string> EncodePq(const Space& space, const Lists& lists, absl::FunctionRef<RowValues(int64_t)> row,
                                     const PqSettings& settings, const std::function<bool()>& stop);

}  // namespace lightcone
