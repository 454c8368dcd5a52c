// MixBCT (Liang et al., 2023, section 3; docs/internals/training-methods.md): which old embeddings a training may
// trust, and how they replace new ones in a batch. Only .cc files of trainer/ and tests include this. Threads: pure
// functions.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "base/rng.h"

namespace lightcone {

// Rows divided by their norm, [..., d] -> [..., d]. A floor of 1e-8 keeps value and gradient finite at the origin.
torch::Tensor UnitRows(const torch::Tensor& rows);

// A tensor of numbers uniform within +-bound, drawn by `rng`.
torch::Tensor DrawUniform(c10::IntArrayRef shape, double bound, Rng& rng);

// Calls visit(class, rows) for every class with rows. `labels` int64 [n]; the rows keep the order of the set.
void ForEachClass(const torch::Tensor& labels,
                  const std::function<void(int64_t label, const torch::Tensor& rows)>& visit);

struct DenoisedRows {
  torch::Tensor keep;          // kept rows, bool [n]
  torch::Tensor distance;      // distance to the mean of the row's class, float64 [n]
  torch::Tensor column_norms;  // norms of the columns of all unit rows, float64 [d]
};

// Keeps the ceil(kept_share n_c) rows of each class that are nearest to the class's mean; equal distances by row.
// Before, rows and then columns of the whole set are brought to norm 1. Classes need not lie together. features [n, d],
// labels int64 [n]; computed in float64 on the CPU, one class at a time. REQUIRES: 0 < kept_share <= 1.
DenoisedRows DenoiseRows(const torch::Tensor& features, const torch::Tensor& labels, double kept_share);

// Ascending positions of a batch of n whose new embedding is replaced: floor(share n) positions with `keep`, or all
// such positions when they are fewer, drawn uniformly without replacement.
std::vector<int64_t> DrawReplaced(const std::vector<bool>& keep, double share, Rng rng);

// The new embeddings with the rows at the positions `replaced` taken from `old`, [n, d], [n, d] -> [n, d]. Old rows are
// unit vectors without gradient. New rows are not normalised, as an ArcFace head normalises every row.
torch::Tensor MixRows(const torch::Tensor& fresh, const torch::Tensor& old, const std::vector<int64_t>& replaced);

}  // namespace lightcone
