// Searches legs of which item adapters may have carried some segments over (carried_segments.h).
// Threads: reentrant.
#pragma once

#include <span>
#include <vector>

#include "index/search/segment_search.h"

namespace lightcone {

// As SearchSegments; segments that the adapter of a request has carried over are searched in its target space.
std::vector<absl::StatusOr<SearchResult>> SearchLegs(std::span<const ScopedRequest> legs);

}  // namespace lightcone
