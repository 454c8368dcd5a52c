// Writes a sealed segment's folder: rows of other segments, the graph or the lists, and last the manifest.
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

// Rows of the sources that are not deleted, by internal id. Source i has rows_of[i] rows.
std::vector<RowReference> GatherRows(const std::vector<std::shared_ptr<Segment>>& sources,
                                     const std::vector<int64_t>& rows_of);

struct SegmentPlan {
  uint64_t id = 0;
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;
  IndexSettings settings;
  // A file that holds the vectors in the segment's layout: it is linked into the segment. Empty: the vectors are
  // written. REQUIRES with a file: the rows are all rows of one source, in order.
  std::string vectors_file;
  bool provisional = false;  // SegmentManifest::provisional
};

// Questions of a build to its caller while it runs.
struct BuildControl {
  std::function<bool()> stop = [] { return false; };  // whether the build is to end
  std::function<void(size_t bytes)> pace = {};        // optional: waits until the disk may be written again
};

// Writes `folder` by way of `folder`.tmp: after a crash it is there as a whole or not at all. Returns the segment with
// every row live. `rows` come in ascending order of internal id, and get the segment's order.
// RESOURCE_EXHAUSTED on a full disk, CANCELLED when `control.stop` says so; no file is left behind then.
// REQUIRES: `rows` is not empty; all sources are of one generation.
absl::StatusOr<std::shared_ptr<SealedSegment>> WriteSegment(const std::string& folder, const SegmentPlan& plan,
                                                            const std::vector<std::shared_ptr<Segment>>& sources,
                                                            std::vector<RowReference>& rows,
                                                            const BuildControl& control);

}  // namespace lightcone
