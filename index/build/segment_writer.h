// Writes a sealed segment's folder: rows gathered from other segments, the graph or the lists, and the manifest last.
// Threads: safe beside other builds; the sources' rows must not change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/api/collection_index.h"
#include "index/build/sealed_segment.h"

namespace lightcone {

// Row `row` of `sources[source]`.
struct RowReference {
  uint64_t internal_id = 0;
  uint32_t source = 0;
  uint32_t row = 0;
};

// The rows of the sources that are not deleted, by internal id. `rows_of[i]` is the number of rows of sources[i].
std::vector<RowReference> GatherRows(const std::vector<std::shared_ptr<Segment>>& sources,
                                     const std::vector<int64_t>& rows_of);

struct SegmentPlan {
  uint64_t id = 0;
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;
  IndexSettings settings;
  // Vectors that lie in a file as the segment's would: linked into the segment instead of written. Empty: none do.
  // REQUIRES then: the rows are those of the one source, all and in order.
  std::string vectors_file;
  bool provisional = false;  // SegmentManifest::provisional
};

// What a build asks for while it runs.
struct BuildControl {
  std::function<bool()> stop = [] { return false; };  // whether it is to end
  std::function<void(size_t bytes)> pace = {};        // optional: waits until the disk may be written again after these
};

// Writes `folder` by way of `folder`.tmp: after a crash it is there as a whole or not at all. Returns the segment with
// every row live; `rows`, which come in ascending order of internal id, are put into the segment's order.
// RESOURCE_EXHAUSTED on a full disk, CANCELLED when `control.stop` says so; nothing is left behind then.
// REQUIRES: `rows` is not empty; all sources are of one generation.
absl::StatusOr<std::shared_ptr<SealedSegment>> WriteSegment(const std::string& folder, const SegmentPlan& plan,
                                                            const std::vector<std::shared_ptr<Segment>>& sources,
                                                            std::vector<RowReference>& rows,
                                                            const BuildControl& control);

}  // namespace lightcone
