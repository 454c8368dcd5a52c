// Which segments the background builder should work on next: pure policy, apart from threads and files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/collection_index.h"

namespace lightcone {

// A segment, growing or sealed.
struct BuildInput {
  bool stale = false;  // sealed with other settings, and a rewrite was asked for
  int64_t rows = 0;
  int64_t deleted = 0;
};

// How many growing segments (full or flushed, oldest first) the next sealed one is made of: as many as fit into
// merge_rows_max and `rows_max`, but at least one where there is one.
size_t PlanSeal(const std::vector<BuildInput>& growing, const IndexSettings& settings, int64_t rows_max = INT64_MAX);

// Picks sealed segments (indices into `sealed`, ascending) that one new segment takes the place of; empty when nothing
// is to be done. In this order:
//   1. stale segments, together as far as they fit into merge_rows_max;
//   2. segments whose deleted share is above tombstones_share_max: one, and further ones as far as all their live rows
//      fit into growing_rows_max;
//   3. kMergeWidth or more segments of one size class (powers of kMergeWidth times growing_rows_max), as far as they
//   fit.
//      So a row is rewritten about log_4(rows / growing_rows_max) times, and a generation keeps few segments.
inline constexpr int kMergeWidth = 4;
std::vector<size_t> PlanRewrite(const std::vector<BuildInput>& sealed, const IndexSettings& settings);

}  // namespace lightcone
