#include <algorithm>
#include <cmath>

#include "trainer/losses/lorentz_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

bool IsDouble(const Tensor& x) { return x.scalar_type() == torch::kFloat64; }

// sqrt(sum of squares) with a floor far below any meaningful norm, which keeps the gradient finite at 0.
Tensor NormFloor(const Tensor& x, double floor) {
  return torch::sqrt(torch::clamp_min((x * x).sum(-1, /*keepdim=*/true), floor * floor));
}

}  // namespace

Tensor ClipNorm(const Tensor& z, double zeta) {
  const Tensor norm = NormFloor(z, 1e-8);
  return z * torch::clamp_max(zeta / norm, 1.0);
}

LorentzPoints ExpOrigin(const Tensor& z, double curvature) {
  const Tensor x2 = (z * z).sum(-1, /*keepdim=*/true) * curvature;
  const Tensor small = x2 < 1e-8;
  // The unused branch must be finite too: its gradient of 0 x inf would spoil the other's.
  const Tensor x = torch::sqrt(torch::where(small, torch::ones_like(x2), x2));
  const Tensor factor = torch::where(small, 1.0 + x2 / 6.0 + x2 * x2 / 120.0, torch::sinh(x) / x);
  const Tensor space = z * factor;
  return {space, torch::sqrt((space * space).sum(-1) + 1.0 / curvature)};
}

Tensor DistanceMatrix(const LorentzPoints& a, const LorentzPoints& b, double curvature, LossDistance distance) {
  const Tensor minus_inner = torch::outer(a.time, b.time) - torch::matmul(a.space, b.space.t());
  if (distance == LossDistance::kInner) return minus_inner;
  const Tensor chord2 = 2.0 * minus_inner - 2.0 / curvature;
  if (distance == LossDistance::kSquared) return chord2;
  // Float32 resolves chord^2 to about 1e-7 t^2, and t^2 is at least 1/K. Below the floor the gradient's direction would
  // be noise.
  const double k = std::sqrt(curvature);
  const double floor = (IsDouble(chord2) ? 1e-24 : 1e-7) * std::max(1.0, 1.0 / curvature);
  return torch::asinh(torch::sqrt(torch::clamp_min(chord2, floor)) * (0.5 * k)) * (2.0 / k);
}

Tensor UncertaintyOfClipped(const Tensor& z, double curvature, bool paper_line3) {
  const double k = std::sqrt(curvature);
  const Tensor speed = torch::tanh(torch::sqrt((z * z).sum(-1)) * k);
  return paper_line3 ? 1.0 - speed / k : 1.0 - speed;
}

Tensor HalfAperture(const LorentzPoints& points, double curvature, double epsilon) {
  torch::NoGradGuard no_grad;  // asin has an infinite slope at the clamp
  const Tensor norm = NormFloor(points.space, 1e-8).squeeze(-1);
  return torch::asin(torch::clamp_max((2.0 * epsilon / std::sqrt(curvature)) / norm, 1.0));
}

Tensor ExteriorAngle(const LorentzPoints& apex, const LorentzPoints& points, double curvature) {
  const double k = std::sqrt(curvature);
  const Tensor norm = NormFloor(apex.space, 1e-8);
  const Tensor direction = apex.space / norm;
  const Tensor along = (points.space * direction).sum(-1, /*keepdim=*/true);
  const Tensor across = points.space - along * direction;
  const Tensor y = torch::sqrt((across * across).sum(-1) + (IsDouble(norm) ? 1e-30 : 1e-12));
  const Tensor x = k * (apex.time * along.squeeze(-1) - norm.squeeze(-1) * points.time);
  // Coincident points (and an apex at the origin with nothing beyond it) have angle 0 by convention.
  const double tiny = IsDouble(norm) ? 1e-14 : 2e-6;
  const Tensor nowhere = torch::logical_and(y < tiny, torch::abs(x) < tiny).detach();
  return torch::atan2(torch::where(nowhere, torch::zeros_like(y), y), torch::where(nowhere, torch::ones_like(x), x));
}

Tensor LorentzLogits(const LorentzPoints& points, const Tensor& a, const Tensor& normals, double curvature) {
  const double k = std::sqrt(curvature);
  const Tensor norm = NormFloor(normals, 1e-8);
  // Scaling the [c, d] normals is cheaper than scaling the [n, c] products.
  const Tensor scaled = normals * (torch::cosh(a * k).unsqueeze(-1) / norm);
  const Tensor inside = torch::matmul(points.space, scaled.t()) - torch::outer(points.time, torch::sinh(a * k));
  return torch::asinh(inside * k) * (norm.squeeze(-1) / k);
}

}  // namespace lightcone
