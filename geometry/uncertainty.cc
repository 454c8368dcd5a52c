#include "geometry/uncertainty.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"

namespace lightcone {

// 1 - tanh(x) = 2 / (1 + exp(2x)) keeps its digits for long vectors.
double UncertaintyOfRadius(double radius, double curvature) {
  return 2.0 / (1.0 + std::exp(2.0 * std::sqrt(curvature) * radius));
}

double UncertaintyLastLine(double radius, double curvature) {
  const double k = std::sqrt(curvature);
  return 1.0 - std::tanh(k * radius) / k;
}

double UncertaintyPoincare(double radius, double curvature) {
  return 2.0 / (1.0 + std::exp(std::sqrt(curvature) * radius));
}

double UncertaintyOf(const Space& space, std::span<const float> z) {
  if (space.metric != Metric::kLorentz) return 0;
  return UncertaintyOfRadius(NormOf(z), space.curvature);
}

double ClippedUncertaintyOf(const Space& space, std::span<const float> z) {
  if (space.metric != Metric::kLorentz) return 0;
  return UncertaintyOfRadius(std::min(NormOf(z), space.clip_radius), space.curvature);
}

// With w_i = exp(-(d_i - d_min)/tau) the entropy is log sum w + sum w (d - d_min)/tau / sum w: no underflow to 0/0.
double NeighbourEntropy(std::span<const double> distances, double tau) {
  LC_DCHECK(!distances.empty() && tau > 0);
  const double nearest = *std::min_element(distances.begin(), distances.end());
  double sum = 0, weighted = 0;
  for (const double distance : distances) {
    const double x = (distance - nearest) / tau, w = std::exp(-x);
    sum += w;
    if (w > 0) weighted += w * x;
  }
  return std::log(sum) + weighted / sum;
}

double RadiusOfUncertainty(double uncertainty, double curvature) {
  LC_DCHECK(uncertainty > 0 && uncertainty <= 1);
  return std::log((2.0 - uncertainty) / uncertainty) / (2.0 * std::sqrt(curvature));
}

}  // namespace lightcone
