// Searches sets of pinned segments: certified scans, graph walks and probes of lists feed one candidate set a request,
// whose rows are then ranked by exact distances in double precision.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/api/collection_index.h"
#include "index/rows/segment.h"

namespace lightcone {

// A segment as a view sees it: its first `rows` rows, whose biases are at most `bias_max`.
struct PinnedSegment {
  std::shared_ptr<const Segment> segment;
  int64_t rows = 0;
  float bias_max = 0;
  std::shared_ptr<const StateCounts> counts;
  CodeBlock code_block = {};  // of these rows

  const CodeBlock* codes() const { return code_block.rows == nullptr ? nullptr : &code_block; }
};

struct SearchScope {
  const std::vector<PinnedSegment>* segments = nullptr;
  uint64_t sequence = 0;  // the view's
  int ef_default = 128;
  int nprobe_default = 0;  // 0: what was measured to find kDefaultRecall, or the most measured
};

// A request and the segments that it is asked of.
struct ScopedRequest {
  SearchScope scope;
  const SearchRequest* request = nullptr;
};

// One answer a request: DEADLINE_EXCEEDED or CANCELLED, if not the hits. Segments that several of them scan are read
// once for all. If k visible rows that pass the filter exist, k hits come back, whatever the graph; of requests that
// are legs of one query (SearchRequest::query_number) k between them. REQUIRES: k >= 1, ef >= 0, and queries of the
// segments' space.
std::vector<absl::StatusOr<SearchResult>> SearchSegments(std::span<const ScopedRequest> requests);

}  // namespace lightcone
