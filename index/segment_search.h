// Searches a set of pinned segments of one generation: certified scans, graph walks and probes of lists feed one
// candidate set, whose rows are then ranked by exact distances in double precision. Threads: reentrant.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/collection_index.h"
#include "index/segment.h"

namespace lightcone {

// A segment as a view sees it: its first `rows` rows, whose biases are at most `bias_max`.
struct PinnedSegment {
  std::shared_ptr<const Segment> segment;
  int64_t rows = 0;
  float bias_max = 0;
  std::shared_ptr<const StateCounts> counts;
};

struct SearchScope {
  const std::vector<PinnedSegment>* segments = nullptr;
  uint64_t sequence = 0;  // the view's
  int ef_default = 128;
  int nprobe_default = 0;  // 0: what was measured to find kDefaultRecall
};

// One answer a request, all of one generation: DEADLINE_EXCEEDED, CANCELLED, or what `checked` (one a request) says is
// wrong with it already. If k visible rows that pass the filter exist, k hits come back, whatever the graph.
// REQUIRES: requests whose `checked` is OK have k >= 1, ef >= 0, and queries of the segments' space.
std::vector<absl::StatusOr<SearchResult>> SearchSegments(const SearchScope& scope,
                                                         std::span<const SearchRequest> requests,
                                                         std::span<const absl::Status> checked);

}  // namespace lightcone
