#include "tests/golden/loss_reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "geometry/lorentz.h"

namespace lightcone::golden {
namespace {

double LogSumExp(const std::vector<double>& x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double value : x) sum += std::exp(value - top);
  return top + std::log(sum);
}

// Gradient of D(n, o) by the space part of n, its time following.
std::vector<double> DistanceGradient(LossDistance distance, const std::vector<double>& n, const std::vector<double>& o,
                                     double curvature) {
  double factor = -1.0;  // of the gradient of <n, o>_L
  if (distance == LossDistance::kSquaredLorentz) factor = -2.0;
  if (distance == LossDistance::kGeodesic) {
    const double k = std::sqrt(curvature);
    const double length = lorentz::Geodesic(n, o, curvature);
    factor = length > 0 ? -k / std::sinh(k * length) : 0.0;
  }
  const double ratio = lorentz::Time(o, curvature) / lorentz::Time(n, curvature);
  std::vector<double> out(n.size());
  for (std::size_t i = 0; i < n.size(); ++i) out[i] = factor * (o[i] - ratio * n[i]);
  return out;
}

// A loss of one row of similarities: returns the value and fills the gradient by each similarity.
using RowLoss = std::function<double(std::size_t i, const std::vector<double>& s, std::vector<double>& gradient)>;

ContrastiveLoss Contrast(LossDistance distance, const Matrix& z_n, const Matrix& z_o, double curvature, double tau,
                         const RowLoss& row_loss) {
  const Matrix distances = DistanceMatrix(distance, z_n, z_o, curvature);
  Matrix space_o;
  for (const auto& z : z_o) space_o.push_back(lorentz::Exp0(z, curvature));
  ContrastiveLoss out;
  const double batch = static_cast<double>(z_n.size());
  for (std::size_t i = 0; i < z_n.size(); ++i) {
    std::vector<double> s;
    for (double value : distances[i]) s.push_back(-value / tau);
    std::vector<double> by_s(s.size(), 0.0);
    out.per_sample.push_back(row_loss(i, s, by_s));
    out.mean += out.per_sample.back() / batch;
    const std::vector<double> space_n = lorentz::Exp0(z_n[i], curvature);
    std::vector<double> by_space(space_n.size(), 0.0);
    for (std::size_t j = 0; j < s.size(); ++j) {
      const std::vector<double> by_point = DistanceGradient(distance, space_n, space_o[j], curvature);
      for (std::size_t x = 0; x < by_space.size(); ++x) by_space[x] -= by_s[j] / tau * by_point[x] / batch;
    }
    out.mean_by_z_n.push_back(lorentz::Exp0Vjp(z_n[i], curvature, by_space));
  }
  return out;
}

}  // namespace

LossDistance ParseLossDistance(std::string_view text) {
  if (text == "geodesic") return LossDistance::kGeodesic;
  if (text == "sqlorentz") return LossDistance::kSquaredLorentz;
  if (text == "neg_inner") return LossDistance::kNegativeInner;
  throw std::invalid_argument("unknown distance " + std::string(text));
}

Matrix DistanceMatrix(LossDistance distance, const Matrix& z_n, const Matrix& z_o, double curvature) {
  Matrix out;
  for (const auto& n : z_n) {
    const std::vector<double> x = lorentz::Exp0(n, curvature);
    out.emplace_back();
    for (const auto& o : z_o) {
      const std::vector<double> y = lorentz::Exp0(o, curvature);
      switch (distance) {
        case LossDistance::kGeodesic:
          out.back().push_back(lorentz::Geodesic(x, y, curvature));
          break;
        case LossDistance::kSquaredLorentz:
          out.back().push_back(lorentz::SquaredLorentz(x, y, curvature));
          break;
        case LossDistance::kNegativeInner:
          out.back().push_back(-lorentz::Inner(x, y, curvature));
          break;
      }
    }
  }
  return out;
}

ContrastiveLoss Rince(LossDistance distance, const Matrix& z_n, const Matrix& z_o, double curvature, double tau,
                      double beta, const std::vector<double>& q) {
  return Contrast(distance, z_n, z_o, curvature, tau, [&](std::size_t i, const auto& s, auto& gradient) {
    const double log_sum = std::log(beta) + LogSumExp(s);
    for (std::size_t j = 0; j < s.size(); ++j) {
      gradient[j] = std::exp((q[i] - 1.0) * log_sum + std::log(beta) + s[j]);
    }
    gradient[i] -= std::exp(q[i] * s[i]);
    return (std::expm1(q[i] * log_sum) - std::expm1(q[i] * s[i])) / q[i];
  });
}

ContrastiveLoss InfoNce(LossDistance distance, const Matrix& z_n, const Matrix& z_o, double curvature, double tau) {
  return Contrast(distance, z_n, z_o, curvature, tau, [](std::size_t i, const auto& s, auto& gradient) {
    const double log_sum = LogSumExp(s);
    for (std::size_t j = 0; j < s.size(); ++j) gradient[j] = std::exp(s[j] - log_sum);
    gradient[i] -= 1.0;
    return log_sum - s[i];
  });
}

LorentzMlr LorentzMlrLoss(const Matrix& z, const std::vector<double>& a, const Matrix& z_k,
                          const std::vector<std::int64_t>& labels, double curvature) {
  const double k = std::sqrt(curvature);
  const std::size_t d = z[0].size(), classes = a.size();
  const double batch = static_cast<double>(z.size());
  LorentzMlr out;
  out.mean_by_a.assign(classes, 0.0);
  out.mean_by_z_k.assign(classes, std::vector<double>(d, 0.0));
  for (std::size_t b = 0; b < z.size(); ++b) {
    const std::vector<double> s = lorentz::Exp0(z[b], curvature);
    const double t = lorentz::Time(s, curvature);
    std::vector<double> logits(classes), arguments(classes), along(classes);
    for (std::size_t c = 0; c < classes; ++c) {
      const double norm = lorentz::Norm(z_k[c]);
      for (std::size_t i = 0; i < d; ++i) along[c] += z_k[c][i] * s[i] / norm;
      arguments[c] = k * (std::cosh(k * a[c]) * along[c] - std::sinh(k * a[c]) * t);
      logits[c] = norm / k * std::asinh(arguments[c]);
    }
    const double log_sum = LogSumExp(logits);
    out.cross_entropy.push_back(log_sum - logits[labels[b]]);
    out.mean += out.cross_entropy.back() / batch;
    std::vector<double> by_space(d, 0.0);
    for (std::size_t c = 0; c < classes; ++c) {
      const double norm = lorentz::Norm(z_k[c]);
      const double by_logit = (std::exp(logits[c] - log_sum) - (labels[b] == static_cast<std::int64_t>(c))) / batch;
      const double by_argument = by_logit * norm / (k * std::sqrt(1.0 + arguments[c] * arguments[c]));
      const double cosh = std::cosh(k * a[c]), sinh = std::sinh(k * a[c]);
      out.mean_by_a[c] += by_argument * k * k * (sinh * along[c] - cosh * t);
      for (std::size_t i = 0; i < d; ++i) {
        const double unit = z_k[c][i] / norm;
        by_space[i] += by_argument * k * (cosh * unit - sinh * s[i] / t);
        out.mean_by_z_k[c][i] +=
            by_logit * std::asinh(arguments[c]) / k * unit + by_argument * k * cosh * (s[i] - along[c] * unit) / norm;
      }
    }
    out.mean_by_z.push_back(lorentz::Exp0Vjp(z[b], curvature, by_space));
    out.logits.push_back(std::move(logits));
  }
  return out;
}

}  // namespace lightcone::golden
