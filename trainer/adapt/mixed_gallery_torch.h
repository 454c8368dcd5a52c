// Retrieval from mixed galleries, whose items are searched in one of two spaces. Only .cc files of trainer/ include
// this.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <vector>

#include "geometry/metric.h"
#include "trainer/adapt/losses_torch.h"
#include "trainer/evaluate.h"

namespace lightcone {

// One way to reach all items: queries and items as points (float64) of one space.
struct GalleryLeg {
  Space space;
  MetricPoints queries, items;  // points, [n, d] each
};

// Figures of all queries for each mask of n bytes: 1 where `second` reaches the item, else `first`. A query's ranking
// leaves its own item out. Distances of both legs are merged without a calibration, equal ones by item. Memory: two
// blocks of 256 x n distances, 256 x masks rankings, and the masks twice. Cost: a sort of 2 n distances a query, then 2
// n additions a query and eight masks. REQUIRES: fewer than 2^30 items. Threads: safe; works on all cores.
std::vector<RetrievalFigures> RankTwoLegs(const GalleryLeg& first, const GalleryLeg& second,
                                          std::span<const int32_t> labels,
                                          const std::vector<std::vector<uint8_t>>& masks);

}  // namespace lightcone
