// The gradient of a loss against central differences, in float64.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>

namespace lightcone {

using ScalarLoss = std::function<torch::Tensor(const torch::Tensor&)>;

inline void ExpectGradientOfDifferences(const ScalarLoss& loss, const torch::Tensor& at, double step = 1e-6) {
  ASSERT_EQ(at.scalar_type(), torch::kFloat64);
  torch::Tensor leaf = at.detach().clone().requires_grad_();
  loss(leaf).backward();
  const torch::Tensor gradient = leaf.grad().contiguous().view({-1});
  torch::NoGradGuard no_grad;
  for (int64_t i = 0; i < at.numel(); ++i) {
    torch::Tensor plus = at.detach().clone(), minus = at.detach().clone();
    plus.view({-1})[i] += step;
    minus.view({-1})[i] -= step;
    const double difference = (loss(plus).item<double>() - loss(minus).item<double>()) / (2 * step);
    EXPECT_NEAR(gradient[i].item<double>(), difference, 1e-6 * (1 + std::abs(difference))) << i;
  }
}

inline void ExpectFiniteWithGradient(const ScalarLoss& loss, const torch::Tensor& at) {
  torch::Tensor leaf = at.detach().clone().requires_grad_();
  const torch::Tensor value = loss(leaf);
  EXPECT_TRUE(std::isfinite(value.item<double>())) << value;
  value.backward();
  EXPECT_TRUE(torch::isfinite(leaf.grad()).all().item<bool>()) << leaf.grad();
}

}  // namespace lightcone
