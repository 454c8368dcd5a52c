// Which segments the background builder should work on next: pure policy, apart from threads and files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/api/collection_index.h"

namespace lightcone {

// A segment, growing or sealed.
struct BuildInput {
  bool stale = false;  // sealed with other settings, and a rewrite was asked for
  int64_t rows = 0;
  int64_t deleted = 0;
  bool provisional = false;  // SegmentManifest::provisional
};

// How many growing segments (full or flushed, oldest first) the next sealed one is made of: as many as fit into
// merge_rows_max and `rows_max`, but at least one where there is one.
size_t PlanSeal(const std::vector<BuildInput>& growing, const IndexSettings& settings, int64_t rows_max = INT64_MAX);

// Why sealed segments are written anew, the most urgent first.
enum class RewriteKind {
  kRebuild,  // stale segments, together as far as they fit into merge_rows_max
  kFinish,   // provisional segments, as far as they fit into a kMergeWidth-th of merge_rows_max: step by step
  kCompact,  // those whose deleted share is above tombstones_share_max: one, and further ones as far as all their live
             // rows fit into growing_rows_max
  kMerge,  // kMergeWidth or more of one size class (powers of kMergeWidth times growing_rows_max), as far as they fit:
           // so a row is rewritten about log_4(rows / growing_rows_max) times, and a generation keeps few segments
};
inline constexpr int kRewriteKinds = 4;
inline constexpr int kMergeWidth = 4;

// Picks sealed segments (indices into `sealed`, ascending) that one new segment takes the place of; empty when there is
// nothing of this kind to do.
std::vector<size_t> PlanRewrite(RewriteKind kind, const std::vector<BuildInput>& sealed, const IndexSettings& settings);

}  // namespace lightcone
