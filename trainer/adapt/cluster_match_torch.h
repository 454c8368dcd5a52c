// Matches the clusters of two sets of rows by how similar each is to the others of its own set. Only .cc files of
// trainer/ and tests include this. Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace lightcone {

// Directions of `count` clusters of the rows, [count, d] of unit length (spherical k-means). REQUIRES: unit rows, at
// least `count`.
torch::Tensor ClusterDirections(const torch::Tensor& rows, int64_t count, Rng* rng);

// For each row of a square matrix the column that it gets, each column once, of the least sum (Jonker & Volgenant
// 1987). REQUIRES: float64, finite.
std::vector<int64_t> Assign(const torch::Tensor& cost);

struct ClusterMatch {
  std::vector<int64_t> partner;  // partner of each cluster in the other set
  double agreement = 0;          // mean product of the similarities that are matched, each standardised; at most 1
};
// REQUIRES: as many directions of unit length in each, at least three.
ClusterMatch MatchClusters(const torch::Tensor& a, const torch::Tensor& b, Rng* rng);

}  // namespace lightcone
