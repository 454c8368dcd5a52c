// AdvBCT's discriminator of new against old embeddings (Pan et al., CVPR 2023; docs/internals/training-baselines.md).
// Only .cc files of trainer/ and tests include this.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace lightcone {

// d -> 100 -> batch norm -> relu -> 2. Threads: as a torch module.
class Discriminator : public torch::nn::Module {
 public:
  // Weights uniform within 1 / sqrt(inputs), drawn from `generator`.
  Discriminator(int64_t dimension, torch::Generator& generator);
  // Logits of "new" and "old", [n, d] -> [n, 2]. The batch norm is over the given rows.
  torch::Tensor forward(const torch::Tensor& z) const;

 private:
  torch::Tensor weight1_, bias1_, scale_, shift_, weight2_, bias2_;
};

// The cross entropy of the discriminator on new rows and old ones, [n, d] each, standardised number by number over the
// batch. A scalar. The new rows' gradient is reversed and weighed by `alpha` (ReverseGradient), so that new embeddings
// learn to pass for old ones.
torch::Tensor AdversarialLoss(const Discriminator& discriminator, const torch::Tensor& z, const torch::Tensor& old,
                              double alpha);

}  // namespace lightcone
