// How unsure a model is of an embedding, read off its norm (HBCT equation 10): long means sure.
// Which of the three to use: Raw orders the backfill (the clipped one carries no information once most norms
// sit at the clip); Clipped (the paper's q) belongs in losses.
// Threads: pure functions.
#pragma once

#include <span>

#include "geometry/metric.h"

namespace lightcone {

// 1 - tanh(k r) = 1 - |h_space| / h_time (equation 10, first line) of a tangent norm r: in (0, 1], decreasing.
double UncertaintyOfRadius(double radius, double curvature);

// 1 - tanh(k r)/k (equation 10, last line): equal to the above for K = 1 only, may leave (0, 1].
double UncertaintyLastLine(double radius, double curvature);

// 1 - tanh(k r/2): from the radius of the isometric Poincare image.
double UncertaintyPoincare(double radius, double curvature);

// From the norm of `z` before the clip. Metrics other than Lorentz define none: 0.
double UncertaintyOf(const Space& space, std::span<const float> z);

// From the norm after the clip. Metrics other than Lorentz define none: 0.
double ClippedUncertaintyOf(const Space& space, std::span<const float> z);

// Entropy in nats of softmax(-d_i / tau) over the distances d_i of an item to its nearest neighbours: how evenly they
// share it (docs/concepts/uncertainty.md). In [0, log n]. REQUIRES: 1 or more distances, finite; tau > 0.
double NeighbourEntropy(std::span<const double> distances, double tau);

// The radius at which UncertaintyOfRadius has this value: atanh(1 - u)/k. REQUIRES: 0 < u <= 1.
double RadiusOfUncertainty(double uncertainty, double curvature);

}  // namespace lightcone
