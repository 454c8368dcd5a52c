// RINCE and InfoNCE between new and old embeddings (docs/internals/training-methods.md, Contrast). Only .cc files of
// trainer/ and tests include this.
#pragma once

#include <torch/torch.h>

namespace lightcone {

struct ContrastOptions {
  double tau = 0.5;    // positive number
  double beta = 0.01;  // positive number
};

// Per-sample loss [n] = [expm1(q (log beta + lse_j s_ij)) - expm1(q s_ii)] / q with s = -distances / tau. `distances`
// [n, n] lead from new to old rows, with positives on the diagonal. `excluded` (bool [n, n], or undefined) are pairs
// outside the sum over old embeddings, never the diagonal. `q` [n] in (0, 1] is a constant.
torch::Tensor RinceLoss(const torch::Tensor& distances, const torch::Tensor& q, const ContrastOptions& options,
                        const torch::Tensor& excluded = {});

// The limit q -> 0 without its constant log beta: lse_j s_ij - s_ii, [n].
torch::Tensor InfoNceLoss(const torch::Tensor& distances, double tau, const torch::Tensor& excluded = {});

// True where two different rows have the same label: `excluded` of the switch mask_same_class.
torch::Tensor SameClassPairs(const torch::Tensor& labels);

}  // namespace lightcone
