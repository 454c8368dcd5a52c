// The items that pass a filter, one bounded batch a call, for writes that choose items by a filter.
// Threads: pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/collection.h"
#include "server/engine/filter/filter.h"
#include "server/engine/write/writer.h"

namespace lightcone::server {

// Items that one call reads at most. A call that reads so many ends with a token.
inline constexpr int64_t kFilteredReadsMax = 200'000;

struct FilteredBatch {
  const Filter* filter = nullptr;
  int64_t limit = 0;  // most items; 0: items_max
  int64_t items_max = 0;
  std::string token;      // where an earlier call ended; empty: from the beginning
  std::string_view step;  // name of the call in errors
};

// The generation whose view decides what a filter sees of an item.
uint32_t ViewGenerationOf(const CollectionState& state);

// Adds ids and expected heads of items that pass to the job, in the order of their ids. Returns the token to go on
// with; empty: no more items pass. INVALID_ARGUMENT names `limit` or `token`.
absl::StatusOr<std::string> CollectFiltered(const Collection& collection, const FilteredBatch& batch,
                                            uint32_t view_generation, const CallContext& context, WriteJob* job);

}  // namespace lightcone::server
