// Which segments the background builder should work on next: pure policy, apart from threads and files.
#pragma once

#include <cstdint>
#include <vector>

#include "index/collection_index.h"

namespace lightcone {

struct BuildInput {
  bool growing = false;  // full or flushed, in the order in which its rows came
  bool stale = false;    // sealed with other settings, and a rewrite was asked for
  int64_t rows = 0;
  int64_t deleted = 0;
};

// Picks inputs (indices into `inputs`, ascending) of one new segment; empty when nothing is to be done. In this order:
//   1. growing segments, oldest first, as many as fit into merge_rows_max and `seal_rows_max` (at least one);
//   2. stale segments, together as far as they fit;
//   3. segments whose deleted share is above tombstones_share_max: one, and further ones as far as all their live rows
//      fit into growing_rows_max;
//   4. kMergeWidth or more segments of one size class (powers of kMergeWidth times growing_rows_max), as far as they
//   fit.
//      So a row is rewritten about log_4(rows / growing_rows_max) times, and a generation keeps few segments.
inline constexpr int kMergeWidth = 4;
// `sealed_last`: the last segment was made of growing ones. Then 2. and 3. come before 1., which has something to do
// all the time where writes never pause.
std::vector<size_t> PlanBuild(const std::vector<BuildInput>& inputs, const IndexSettings& settings,
                              bool sealed_last = false, int64_t seal_rows_max = INT64_MAX);

}  // namespace lightcone
