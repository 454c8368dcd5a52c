// Policy of the background builder: which segments it works on next. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/api/collection_index.h"

namespace lightcone {

// What the policy knows of a growing or sealed segment.
struct BuildInput {
  bool stale = false;  // sealed with other settings, and to be rewritten
  int64_t rows = 0;
  int64_t deleted = 0;
  bool provisional = false;  // SegmentManifest::provisional
};

// Number of growing segments (full or flushed, oldest first) that the next sealed segment is made of. As many as fit
// into merge_rows_max and `rows_max`, but at least one where there is one.
size_t PlanSeal(const std::vector<BuildInput>& growing, const IndexSettings& settings, int64_t rows_max = INT64_MAX);

// Why sealed segments are written anew, the most urgent first.
enum class RewriteKind {
  kRebuild,  // stale segments, together as far as they fit into merge_rows_max
  kFinish,   // provisional segments, as far as they fit into a kMergeWidth-th of merge_rows_max
  // One segment whose deleted share is above tombstones_share_max, and further such ones as far as all their live rows
  // fit into growing_rows_max.
  kCompact,
  // kMergeWidth or more segments of one size class (powers of kMergeWidth times growing_rows_max), as far as they fit.
  // So a row is rewritten about log_4(rows / growing_rows_max) times, and a generation keeps few segments.
  kMerge,
};
inline constexpr int kRewriteKinds = 4;
inline constexpr int kMergeWidth = 4;

// Picks the sealed segments (ascending indices into `sealed`) that one new segment replaces. Empty when there is
// nothing of this kind to do.
std::vector<size_t> PlanRewrite(RewriteKind kind, const std::vector<BuildInput>& sealed, const IndexSettings& settings);

}  // namespace lightcone
