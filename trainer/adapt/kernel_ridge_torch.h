// Kernel ridge regression on the residuals of a linear map, in closed form (docs/internals/adapters.md, A fit). Only
// .cc files of trainer/ and tests include this. Threads: pure functions; they use the tensor library's threads.
#pragma once

#include <torch/torch.h>

#include <atomic>

#include "absl/status/statusor.h"
#include "trainer/adapt/closed_form_torch.h"

namespace lightcone {

struct KernelMap {
  LinearMap linear;                                        // linear map of the shortened inputs
  torch::Tensor centres;                                   // shortened centres, [m, in] float32
  torch::Tensor output;                                    // weights of the centres, [out, m] float64
  double radius = 0;                                       // length to which longer inputs are shortened
  double sharpness = 0;                                    // gamma
  double lambda = 0;                                       // chosen ridge of the kernel part
  torch::Tensor Linear(const torch::Tensor& z) const;      // linear part of the map
  void Lengthen(double factor);                            // multiplies all outputs by `factor`
  torch::Tensor operator()(const torch::Tensor& z) const;  // [n, in] -> [n, out] float64, before the clip
};

// min over B of sum |W x + c + B k(x) - y|^2 + lambda tr(B K B^T) with k_j(x) = exp(-gamma |x - a_j|) and K the
// centres' own kernel: kernel ridge regression restricted to m centres (Nystroem; Rudi, Camoriano & Rosasco 2015,
// equation 8). FitRidge gives W and c. The centres are m evenly spread rows of x; gamma is 0.25 / radius; lambda has
// the least squared error on `held_z`, `held_y`. All sums are float64. z [n, in], y [n, out] with n >= m; cost n m^2.
// FAILED_PRECONDITION where no lambda can be solved; CANCELLED soon after `stop` is set.
absl::StatusOr<KernelMap> FitKernel(const torch::Tensor& z, const torch::Tensor& y, const torch::Tensor& held_z,
                                    const torch::Tensor& held_y, int64_t centres, double radius,
                                    const std::atomic<bool>* stop = nullptr);

}  // namespace lightcone
