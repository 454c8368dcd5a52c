// MixBCT (Liang et al., 2023, section 3; docs/internals/training-methods.md): which old embeddings a training may
// trust, and how they take the place of new ones in a batch. Only .cc files of trainer/ and tests include this.
// Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "trainer/data/rng.h"

namespace lightcone {

// Rows divided by their norm; the floor (1e-8) keeps value and gradient finite at the origin. [..., d] -> [..., d].
torch::Tensor UnitRows(const torch::Tensor& rows);

struct DenoisedRows {
  torch::Tensor keep;          // bool [n]
  torch::Tensor distance;      // float64 [n], to the mean of the row's class; what `keep` was decided by
  torch::Tensor column_norms;  // float64 [d], of the unit rows over the whole set
};

// Per class, keeps the ceil(kept_share n_c) rows nearest to the class's mean, after rows and then columns (over the
// whole set) were brought to norm 1; equal distances by row. The order of the rows does not matter: classes need not
// lie together. features [n, d], labels int64 [n]; computed in float64 on the CPU, one class at a time.
// REQUIRES: 0 < kept_share <= 1.
DenoisedRows DenoiseRows(const torch::Tensor& features, const torch::Tensor& labels, double kept_share);

// Positions of a batch whose new embedding is replaced: floor(share n) of those with `keep` (n of them in all), or all
// of them when they are fewer; uniform, without replacement, ascending.
std::vector<int64_t> DrawReplaced(const std::vector<bool>& keep, double share, Rng rng);

// The new embeddings with the rows `replaced` (positions) taken from `old`, as unit vectors and without gradient; the
// other rows are passed on as they are: an ArcFace head normalises every row. [n, d], [n, d] -> [n, d].
torch::Tensor MixRows(const torch::Tensor& fresh, const torch::Tensor& old, const std::vector<int64_t>& replaced);

}  // namespace lightcone
