// HypMix (docs/internals/training-methods.md): contrast of two views by cosine and hyperbolic distance at once. Only
// .cc files of trainer/ and tests include this. Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lightcone {

enum class HypMixGeometry { kMixed, kSpherical, kHyperbolic };

struct HypMixOptions {
  HypMixGeometry geometry = HypMixGeometry::kMixed;
  double tau_e = 0.05;     // temperature of the cosine, > 0
  double tau_h = 0.2;      // temperature of the hyperbolic distance, > 0
  double lambda = 3;       // weight of the hyperbolic part beside the cosine; kMixed only
  double curvature = 0.1;  // c > 0: the ball has curvature -c
};

// D_hyp between unit vectors that are lifted onto the Poincare ball by its exponential map at the origin:
// 2/sqrt(c) artanh( sqrt(c) |(-x) (+) y| ), every row of `x` to every row of `y`. [n, d], [m, d] -> [n, m].
torch::Tensor HypMixDistances(const torch::Tensor& x, const torch::Tensor& y, double curvature);

// Mean cross entropy of row i of the other view among [the other view | the own view without i], summed over the two
// directions. Logits: cos/tau_e - lambda D/tau_h (mixed), cos/tau_e (spherical), -D/tau_h (hyperbolic, as in Ermolov et
// al., CVPR 2022). view0, view1 [n, d] are not normalised. With `labels` (int64 [n]) other rows of a class are no
// negatives. Empty views give 0.
torch::Tensor HypMixLoss(const torch::Tensor& view0, const torch::Tensor& view1, const HypMixOptions& options,
                         const torch::Tensor& labels = {});

// Positions of a batch as two views, in the order of the batch: first[i] and second[i] are of one class. Each position
// occurs at most once; the odd position of a class occurs in neither view.
struct ViewPairs {
  std::vector<int64_t> first, second;
};
ViewPairs PairsOfOneClass(const std::vector<int64_t>& labels);

}  // namespace lightcone
