// Searches sets of pinned segments. Each segment is planned (plan.h); scans, beam searches and probes of lists feed one
// candidate set a request, whose rows are then ranked by exact distances in double precision.
// Threads: reentrant.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/search/scoped_request.h"

namespace lightcone {

// One answer a request: the hits, DEADLINE_EXCEEDED or CANCELLED. Segments that several requests scan are read once for
// all. If k visible rows that pass the filter exist, k hits come back, whatever the graph; requests that are legs of
// one query (SearchRequest::query_number) return k between them. REQUIRES: k >= 1, ef >= 0, and queries of the
// segments' space.
std::vector<absl::StatusOr<SearchResult>> SearchSegments(std::span<const ScopedRequest> requests);

}  // namespace lightcone
