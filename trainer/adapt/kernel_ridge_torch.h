// Kernel ridge regression in closed form (docs/internals/adapters.md, A fit): on the residuals of a linear map with a
// fixed sharpness, or together with it with all settings chosen by a held-out loss. Only .cc files of trainer/ and
// tests include this. Threads: pure functions; they use the tensor library's threads.
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <functional>

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

// Rows of `z` as float64, longer ones shortened to `radius`.
torch::Tensor ShortenedRows(const torch::Tensor& z, double radius);

// |x_i - a_j|, [n, m] float64. REQUIRES: float64 rows.
torch::Tensor RowDistances(const torch::Tensor& x, const torch::Tensor& a);

// `count` evenly spread rows of z. REQUIRES: 1 <= count <= rows.
torch::Tensor SpreadRows(const torch::Tensor& z, int64_t count);

// min over B of sum |W x + c + B k(x) - y|^2 + lambda tr(B K B^T) with k_j(x) = exp(-gamma |x - a_j|) and K the
// centres' own kernel: kernel ridge regression restricted to m centres (Nystroem; Rudi, Camoriano & Rosasco 2015,
// equation 8). FitRidge gives W and c. The centres are m evenly spread rows of x; gamma is 0.25 / radius; lambda has
// the least squared error on `held_z`, `held_y`. All sums are float64. z [n, in], y [n, out] with n >= m; cost n m^2.
// FAILED_PRECONDITION where no lambda can be solved; CANCELLED soon after `stop` is set.
absl::StatusOr<KernelMap> FitKernel(const torch::Tensor& z, const torch::Tensor& y, const torch::Tensor& held_z,
                                    const torch::Tensor& held_y, int64_t centres, double radius,
                                    const std::atomic<bool>* stop = nullptr);

// How sharp, how linear and how smooth a kernel map is, in units of the data: the root mean square distance s of the
// inputs from their mean.
struct KernelSettings {
  double sharpness = 1;  // gamma s
  double linear = 0.25;  // weight of the linear kernel <x, a> / s^2 beside that of the Laplace kernel, which is 1
  double lambda = 0.1;   // ridge
};

// What a choice of settings reads and asks for.
struct KernelChoice {
  torch::Tensor held_z;                              // held-out inputs, [h, in]
  std::function<double(const torch::Tensor&)> loss;  // loss of the map's outputs [h, out] for held_z
  int64_t parts_max = 4096;                          // most centres and inputs of the linear part together
  double radius = 0;                                 // length to which longer inputs are shortened
  std::function<void(int64_t, int64_t)> progress;    // steps done and most steps; may be empty
  const std::atomic<bool>* stop = nullptr;           // may be null
};

// min over W, B of sum |W (x - mean) + mean of y + B k(x) - y|^2 + lambda (tr(B K B^T) + s^2 |W|^2 / linear): ridge
// regression with the kernel exp(-gamma |x - a|) + linear <x - mean, a - mean> / s^2, restricted to the centres
// (Nystroem) where there are more rows than `parts_max` allows. Coordinate descent over a grid of settings, from the
// usual ones, on the first rows alone: the best settings hardly depend on the number of rows. A tie keeps the earlier.
// Errors as FitKernel.
absl::StatusOr<KernelMap> FitKernelByLoss(const torch::Tensor& z, const torch::Tensor& y, const KernelChoice& choice);

}  // namespace lightcone
