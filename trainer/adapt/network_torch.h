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

// f(z) = sigma (W x + c + B relu(A x + a)) with x = z / rho, the other maps likewise. rho and sigma are the root mean
// square norms of inputs and targets: AdamW's steps have an absolute length, which then suits embeddings of any scale.
// Export folds rho and sigma into the weights.
class AdapterNetwork {
 public:
  // Starts from `linear` for affine and residual-mlp (with B = 0), from its best low-rank form for low-rank-affine, and
  // from the Procrustes map for procrustes, which is not trained. `x` [n, in] and `y` [n, out] are the pairs of
  // `linear`.
  AdapterNetwork(const AdaptOptions& options, const LinearMap& linear, const torch::Tensor& x, const torch::Tensor& y);

  torch::Tensor operator()(const torch::Tensor& z) const { return Forward(z); }
  torch::Tensor Forward(const torch::Tensor& z) const;  // [n, in] -> [n, out], before the clip
  torch::Tensor Hidden(const torch::Tensor& z) const;   // relu(A x + a), [n, width]; residual-mlp only

  std::vector<torch::Tensor> parameters() const;  // trained tensors; procrustes has none
  std::vector<torch::Tensor> Snapshot() const;    // copies of the parameters
  void Restore(const std::vector<torch::Tensor>& snapshot);

  // Kind, dimensions, target and weights, without a head.
  AdapterSpec Export() const;

 private:
  void StartLowRank(const AdaptOptions& options, const LinearMap& linear, const torch::Tensor& x,
                    const torch::Tensor& y);
  void StartHidden(const AdaptOptions& options);

  AdapterSpec frame_;  // specification without the weights
  double rho_ = 1, sigma_ = 1;
  bool trains_linear_ = false;
  torch::Tensor linear_;                  // linear part; undefined for the identity
  torch::Tensor offset_;                  // offset; undefined for procrustes
  torch::Tensor hidden_, hidden_offset_;  // V^T or A, and a; undefined for maps without them
  torch::Tensor output_;                  // U or B
};

}  // namespace lightcone
