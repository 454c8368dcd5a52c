// Kernel ridge regression on what a linear map leaves, in closed form (docs/internals/adapters.md, A fit). Only .cc
// files of trainer/ and tests include this. Threads: pure functions; they use the tensor library's threads.
#pragma once

#include <torch/torch.h>

#include <atomic>

#include "absl/status/statusor.h"
#include "trainer/adapt/closed_form_torch.h"

namespace lightcone {

struct KernelMap {
  LinearMap linear;                                        // of the shortened inputs
  torch::Tensor centres;                                   // [m, in] float32, shortened
  torch::Tensor output;                                    // [out, m] float64
  double radius = 0;                                       // inputs longer than this are shortened to it
  double sharpness = 0;                                    // gamma
  double lambda = 0;                                       // ridge of the kernel part that was chosen
  torch::Tensor Linear(const torch::Tensor& z) const;      // its linear part alone
  void Lengthen(double factor);                            // every output by this factor from now on
  torch::Tensor operator()(const torch::Tensor& z) const;  // [n, in] -> [n, out] float64, before the clip
};

// min over B of sum |W x + c + B k(x) - y|^2 + lambda tr(B K B^T) with k_j(x) = exp(-gamma |x - a_j|), K the centres'
// own kernel: kernel ridge regression restricted to m centres (Nystroem; Rudi, Camoriano & Rosasco 2015, equation 8). W
// and c are FitRidge's. The centres are m rows of x evenly spread; gamma is 0.25 / radius. lambda is the one with the
// least squared error on `held_x`, `held_y`. All sums are float64. z [n, in], y [n, out] with n >= m; cost n m^2.
// FAILED_PRECONDITION where no lambda can be solved; CANCELLED soon after `stop` is set.
absl::StatusOr<KernelMap> FitKernel(const torch::Tensor& z, const torch::Tensor& y, const torch::Tensor& held_z,
                                    const torch::Tensor& held_y, int64_t centres, double radius,
                                    const std::atomic<bool>* stop = nullptr);

}  // namespace lightcone
