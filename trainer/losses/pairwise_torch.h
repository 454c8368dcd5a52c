// Compatibility losses between the new and the old embeddings of one batch (docs/internals/training-baselines.md). All
// take raw embeddings [n, d], `old` without gradient, and int64 labels [n], and normalise the rows. Gradients are
// finite everywhere. Only .cc files of trainer/ and tests include this. Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace lightcone {

// mean_i |n_i - o_i| (MixBCT's l2 baseline); its gradient at n_i = o_i is 0.
torch::Tensor L2NormLoss(const torch::Tensor& fresh, const torch::Tensor& old);
// Mean square of the elements of n - o (OpenCompatible).
torch::Tensor L2MseLoss(const torch::Tensor& fresh, const torch::Tensor& old);

struct ContraOptions {
  double tau = 0.5;         // temperature, > 0
  int64_t negatives = 0;    // number of hardest negatives of each kind; 0: all
  bool new_to_new = false;  // whether new embeddings of other classes are negatives (Hot-Refresh)
};

// Per-sample loss [n]: cross entropy of o_i among o_i, the o_j of other classes and, with new_to_new, the n_j of other
// classes, with logits <n_i, .>/tau (Zhang et al., Hot-Refresh Model Upgrades, ICLR 2022). A sample without negatives
// has loss 0.
torch::Tensor ContraLoss(const torch::Tensor& fresh, const torch::Tensor& old, const torch::Tensor& labels,
                         const ContraOptions& options);

// Per-sample loss [n] with the old embeddings as anchors: log sum_j exp(mu <o_i, n_j>) over other classes minus
// mu <o_i, n_i> (HOC: Biondi et al., CVPR 2024). With `zeroed`, pairs of one class stay in the sum with exponent 0.
// Without it, a sample without a pair of another class keeps the second term alone.
torch::Tensor HocLoss(const torch::Tensor& fresh, const torch::Tensor& old, const torch::Tensor& labels, double mu,
                      bool zeroed);

}  // namespace lightcone
