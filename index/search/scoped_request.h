// A search request and the pinned segments of one generation that it asks: one leg. What a search asks of every row and
// of its caller stands here.
// Threads: reentrant. A search that scans for another call asks that call's `keep` and `cancelled` from its own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "index/api/search.h"
#include "index/rows/id_set.h"
#include "index/rows/segment.h"

namespace lightcone {

// A segment as a view sees it: its first `rows` rows, whose biases are at most `bias_max`.
struct PinnedSegment {
  std::shared_ptr<const Segment> segment;
  int64_t rows = 0;
  float bias_max = 0;
  std::shared_ptr<const StateCounts> counts;
  CodeBlock code_block = {};  // codes of these rows

  const CodeBlock* codes() const { return code_block.rows == nullptr ? nullptr : &code_block; }
};

struct SearchScope {
  const std::vector<PinnedSegment>* segments = nullptr;
  uint64_t sequence = 0;  // sequence of the view
  int ef_default = 128;
  int nprobe_default = 0;  // 0: DefaultProbes (rows/measured_recall.h)
};

struct ScopedRequest {
  SearchScope scope;
  const SearchRequest* request = nullptr;

  // CANCELLED when the caller has gone. Ranking candidates asks this alone: it is little work, and another leg may have
  // used up the time.
  absl::Status Cancelled() const {
    if (request->cancelled != nullptr && *request->cancelled && (*request->cancelled)()) {
      return MakeStatus(absl::StatusCode::kCancelled, "search cancelled by the caller");
    }
    return absl::OkStatus();
  }

  // CANCELLED or DEADLINE_EXCEEDED when the caller has gone.
  absl::Status Interrupted() const {
    LC_RETURN_IF_ERROR(Cancelled());
    if (request->deadline != absl::InfiniteFuture() && absl::Now() >= request->deadline) {
      return DeadlineExceeded("search ran past its deadline");
    }
    return absl::OkStatus();
  }

  int64_t VisibleRows(const PinnedSegment& pinned) const { return pinned.counts->Visible(request->view_generation); }

  bool IsFiltered() const { return request->keep != nullptr || request->ids != nullptr; }

  // Whether every row may be a hit, so that no row's state, which is another place in memory, has to be read.
  bool EveryRowPasses(const PinnedSegment& pinned) const { return !IsFiltered() && VisibleRows(pinned) == pinned.rows; }

  // Whether the view serves the row and its id is among those asked for.
  bool Passes(const PinnedSegment& pinned, uint32_t row) const {
    if (request->ids != nullptr && !request->ids->Contains(pinned.segment->block().ids[row])) return false;
    return pinned.segment->states().Visible(row, request->view_generation, scope.sequence);
  }

  // Whether the filter keeps a row that passes.
  bool Keeps(const PinnedSegment& pinned, uint32_t row) const {
    if (!request->keep) return true;
    const RowBlock& block = pinned.segment->block();
    return request->keep(block.ids[row], block.uncertainty[row]);
  }

  bool Accepts(const PinnedSegment& pinned, uint32_t row) const { return Passes(pinned, row) && Keeps(pinned, row); }
};

}  // namespace lightcone
