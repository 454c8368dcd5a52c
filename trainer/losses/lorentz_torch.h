// Lorentz geometry with gradients (equations: docs/internals/training-methods.md), in the dtype of its inputs: float32
// to train, float64 to check. Rows are points; k = sqrt(K). Only .cc files of trainer/ and their tests include this.
// Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include <string>

namespace lightcone {

// Points of the hyperboloid of curvature -K: space [n, d], time [n] = sqrt(1/K + |space|^2).
struct LorentzPoints {
  torch::Tensor space, time;
};

enum class LossDistance { kGeodesic, kInner, kSquared };

// z min(1, zeta / |z|) per row, [n, d] -> [n, d]. Clipped rows have no radial gradient.
torch::Tensor ClipNorm(const torch::Tensor& z, double zeta);

// exp_0: s = z sinh(k|z|)/(k|z|), with the series below k|z| = 1e-4. [n, d] -> points.
LorentzPoints ExpOrigin(const torch::Tensor& z, double curvature);

// Distances of every row of `a` to every row of `b`, [n, m]. Geodesic: 2/k asinh(k chord / 2), chord^2 = -2/K - 2<a,
// b>_L; inner: -<a, b>_L; squared: chord^2 (HBCT table 5). The gradient of coincident points is 0.
torch::Tensor DistanceMatrix(const LorentzPoints& a, const LorentzPoints& b, double curvature, LossDistance distance);

// Uncertainty of already clipped tangent vectors, [n]: 1 - tanh(k|z|) (HBCT equation 10, first line), or
// 1 - tanh(k|z|)/k when `paper_line3` (its last line, can fall below 0 for K < 1).
torch::Tensor UncertaintyOfClipped(const torch::Tensor& z, double curvature, bool paper_line3);

// Half-aperture of the entailment cone at each point, [n]: asin(min(1, 2 eps / (k|s|))), without gradient, as apexes
// are old embeddings.
torch::Tensor HalfAperture(const LorentzPoints& points, double curvature, double epsilon);

// Exterior angle at each apex row towards the row of `points`, [n], in [0, pi]: atan2(Y, X) of
// docs/internals/training-methods.md, with 1e-12 under Y's root (float64: 1e-30), 0 with zero gradient where both
// coordinates vanish.
torch::Tensor ExteriorAngle(const LorentzPoints& apex, const LorentzPoints& points, double curvature);

// Lorentz multinomial logits (Bdeir et al.; docs/internals/training-methods.md): a [c], normals [c, d], points of n
// rows -> [n, c].
torch::Tensor LorentzLogits(const LorentzPoints& points, const torch::Tensor& a, const torch::Tensor& normals,
                            double curvature);

}  // namespace lightcone
