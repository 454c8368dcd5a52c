#include <cmath>
#include <limits>

#include "trainer/losses/contrast_torch.h"

namespace lightcone {
namespace {

torch::Tensor LogSumOverOld(const torch::Tensor& similarities, const torch::Tensor& excluded) {
  if (!excluded.defined()) return torch::logsumexp(similarities, 1);
  return torch::logsumexp(similarities.masked_fill(excluded, -std::numeric_limits<double>::infinity()), 1);
}

}  // namespace

torch::Tensor RinceLoss(const torch::Tensor& distances, const torch::Tensor& q, const ContrastOptions& options,
                        const torch::Tensor& excluded) {
  const torch::Tensor similarities = distances * (-1.0 / options.tau);
  const torch::Tensor sum = LogSumOverOld(similarities, excluded) + std::log(options.beta);
  return (torch::expm1(q * sum) - torch::expm1(q * similarities.diagonal())) / q;
}

torch::Tensor InfoNceLoss(const torch::Tensor& distances, double tau, const torch::Tensor& excluded) {
  const torch::Tensor similarities = distances * (-1.0 / tau);
  return LogSumOverOld(similarities, excluded) - similarities.diagonal();
}

torch::Tensor SameClassPairs(const torch::Tensor& labels) {
  torch::Tensor same = labels.unsqueeze(0) == labels.unsqueeze(1);
  same.fill_diagonal_(false);
  return same;
}

}  // namespace lightcone
