// MixBCT, BT2 and HypMix in plain float64 C++: a second witness beside the trainer's torch code, used by tests only.
// Formulas: docs/internals/training-methods.md.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/golden/checker.h"

namespace lightcone::golden {

std::vector<double> Unit(const std::vector<double>& row);

struct Denoised {
  std::vector<double> column_norms, distance;
  std::vector<bool> keep;
};
// Keeps, per class, the ceil(tenths n_c / 10) rows nearest to the class's mean.
Denoised Denoise(const Matrix& features, const std::vector<std::int64_t>& labels, std::int64_t tenths);

// e^A and (I - A/2)^-1 (I + A/2) of A = strict lower triangle of x minus its transpose.
Matrix OrthogonalByExponential(const Matrix& x);
Matrix OrthogonalByCayley(const Matrix& x);

struct Bt2Row {
  std::vector<double> phi2, phi3, phi4, phi5, phi_new;
};
// `scale` is C; f as in the paper: it reads phi1 itself.
Bt2Row Bt2Transform(const std::vector<double>& phi1, const Matrix& b1, const Matrix& b2, const Matrix& f_weight,
                    const std::vector<double>& f_bias, double scale);

// 2/sqrt(c) artanh( sqrt(c) |(-x) (+) y| ) with the Moebius sum written out, x and y lifted onto the ball.
double BallDistance(const std::vector<double>& x, const std::vector<double>& y, double curvature);

double HypMix(const Matrix& view0, const Matrix& view1, double curvature, double tau_e, double tau_h, double lambda);

}  // namespace lightcone::golden
