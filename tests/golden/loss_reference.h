// RINCE, InfoNCE and the Lorentz classifier in plain float64 C++ with hand-written gradients: a second witness beside
// the trainer's torch code, used by tests only. Formulas: docs/internals/training-methods.md.
#pragma once

#include <string_view>
#include <vector>

#include "tests/golden/checker.h"

namespace lightcone::golden {

enum class LossDistance { kGeodesic, kSquaredLorentz, kNegativeInner };

// "geodesic", "sqlorentz", "neg_inner"; throws std::invalid_argument otherwise.
LossDistance ParseLossDistance(std::string_view text);

// D(exp_0(z_n_i), exp_0(z_o_j)).
Matrix DistanceMatrix(LossDistance distance, const Matrix& z_n, const Matrix& z_o, double curvature);

struct ContrastiveLoss {
  std::vector<double> per_sample;
  double mean = 0;
  Matrix mean_by_z_n;  // gradient of the mean
};

// One q a sample, constant.
ContrastiveLoss Rince(LossDistance distance, const Matrix& z_n, const Matrix& z_o, double curvature, double tau,
                      double beta, const std::vector<double>& q);

ContrastiveLoss InfoNce(LossDistance distance, const Matrix& z_n, const Matrix& z_o, double curvature, double tau);

// Lorentz multinomial logistic regression with cross entropy.
struct LorentzMlr {
  Matrix logits;
  std::vector<double> cross_entropy;
  double mean = 0;
  Matrix mean_by_z;
  std::vector<double> mean_by_a;
  Matrix mean_by_z_k;
};
LorentzMlr LorentzMlrLoss(const Matrix& z, const std::vector<double>& a, const Matrix& z_k,
                          const std::vector<std::int64_t>& labels, double curvature);

}  // namespace lightcone::golden
