// Rows that walks without a filter have met, filtered in the end (filter_plan.h, post-filter).
// Threads: reentrant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace lightcone {

struct MetRow {
  float score = 0;
  double error = 0;  // of the score
  size_t walk = 0;   // that met it
  uint32_t row = 0;
};

// Those of the rows that are accepted, nearest first, without such as can be none of `wanted` hits once there are enough:
// a row's state and id are elsewhere in memory, and asking for them costs more than walking. nullopt where fewer are
// accepted than a walk is trusted with, unless the farthest row met is below `floor` already.
std::optional<std::vector<MetRow>> NearestAccepted(std::vector<MetRow> met, int64_t wanted, double floor,
                                                   absl::FunctionRef<bool(const MetRow&)> accepts);

}  // namespace lightcone
