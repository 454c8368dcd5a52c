// What the parts of one search share: whose rows, for whom, and whether anybody still waits.
// Threads: reentrant; belongs to one search. Whoever scans for it asks `keep` and `cancelled`, from a thread of any
// call.
#pragma once

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "index/api/collection_index.h"
#include "index/rows/id_set.h"
#include "index/search/segment_search.h"

namespace lightcone {

struct SearchContext {
  const SearchScope& scope;
  const SearchRequest& request;

  // CANCELLED when the caller has gone. What is left to do with candidates asks this alone: it is little, and another
  // leg may have taken the time.
  absl::Status Cancelled() const {
    if (request.cancelled != nullptr && *request.cancelled && (*request.cancelled)()) {
      return MakeStatus(absl::StatusCode::kCancelled, "search cancelled by the caller");
    }
    return absl::OkStatus();
  }

  // CANCELLED or DEADLINE_EXCEEDED when the caller has gone.
  absl::Status Interrupted() const {
    LC_RETURN_IF_ERROR(Cancelled());
    if (request.deadline != absl::InfiniteFuture() && absl::Now() >= request.deadline) {
      return DeadlineExceeded("search ran past its deadline");
    }
    return absl::OkStatus();
  }

  // Whether the view serves the row and its id is among those asked for.
  bool Passes(const PinnedSegment& pinned, uint32_t row) const {
    if (request.ids != nullptr && !request.ids->Contains(pinned.segment->block().ids[row])) return false;
    return pinned.segment->states().Visible(row, request.view_generation, scope.sequence);
  }

  // Whether the filter keeps a row that passes.
  bool Keeps(const PinnedSegment& pinned, uint32_t row) const {
    if (!request.keep) return true;
    const RowBlock& block = pinned.segment->block();
    return request.keep(block.ids[row], block.uncertainty[row]);
  }

  bool Accepts(const PinnedSegment& pinned, uint32_t row) const { return Passes(pinned, row) && Keeps(pinned, row); }
};

}  // namespace lightcone
