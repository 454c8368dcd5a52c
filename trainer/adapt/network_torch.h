// An adapter's map with gradients (docs/internals/adapters.md, Maps). Only .cc files of trainer/ and tests include
// this.
// Threads: one at a time.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "geometry/adapter.h"
#include "trainer/adapt/closed_form_torch.h"
#include "trainer/adapt/options.h"

namespace lightcone {

// f(z) = sigma (W x + c + B relu(A x + a)), x = z / rho (the other maps likewise), with rho and sigma the root mean
// square norms of inputs and targets: AdamW's steps have an absolute length, and so mean the same for embeddings of any
// scale. Export folds rho and sigma into the weights.
class AdapterNetwork {
 public:
  // The start: `linear` for affine and residual-mlp (whose B is 0), its best low-rank form for low-rank-affine,
  // Procrustes for procrustes (which has nothing to train). `x` [n, in] and `y` [n, out] are the pairs that `linear`
  // came from.
  AdapterNetwork(const AdaptOptions& options, const LinearMap& linear, const torch::Tensor& x, const torch::Tensor& y);

  torch::Tensor operator()(const torch::Tensor& z) const { return Forward(z); }
  torch::Tensor Forward(const torch::Tensor& z) const;  // [n, in] -> [n, out], before the clip
  torch::Tensor Hidden(const torch::Tensor& z) const;   // relu(A x + a), [n, width]; residual-mlp only

  std::vector<torch::Tensor> parameters() const;  // empty for procrustes
  std::vector<torch::Tensor> Snapshot() const;    // copies of them
  void Restore(const std::vector<torch::Tensor>& snapshot);

  // Kind, dimensions, target and weights, without a head.
  AdapterSpec Export() const;

 private:
  void StartLowRank(const AdaptOptions& options, const LinearMap& linear, const torch::Tensor& x,
                    const torch::Tensor& y);
  void StartHidden(const AdaptOptions& options);

  AdapterSpec frame_;  // everything but the weights
  double rho_ = 1, sigma_ = 1;
  bool trains_linear_ = false;
  torch::Tensor linear_;                  // undefined: the identity
  torch::Tensor offset_;                  // undefined for procrustes
  torch::Tensor hidden_, hidden_offset_;  // V^T or A, and a; undefined where the map has none
  torch::Tensor output_;                  // U or B
};

}  // namespace lightcone
