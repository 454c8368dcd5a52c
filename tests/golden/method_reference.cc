#include "tests/golden/method_reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace lightcone::golden {
namespace {

Matrix Identity(std::size_t n) {
  Matrix out(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) out[i][i] = 1.0;
  return out;
}

// a + factor b.
Matrix Sum(Matrix a, const Matrix& b, double factor) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) a[i][j] += factor * b[i][j];
  }
  return a;
}

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix out(a.size(), std::vector<double>(b[0].size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < b[k].size(); ++j) out[i][j] += a[i][k] * b[k][j];
    }
  }
  return out;
}

std::vector<double> Times(const Matrix& a, const std::vector<double>& x) {
  std::vector<double> out;
  for (const auto& row : a) out.push_back(Dot(row, x));
  return out;
}

Matrix SkewOf(const Matrix& x) {
  Matrix out(x.size(), std::vector<double>(x.size(), 0.0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      out[i][j] = x[i][j];
      out[j][i] = -x[i][j];
    }
  }
  return out;
}

// The solution of a x = b by Gauss-Jordan elimination with row pivots.
Matrix Solve(Matrix a, Matrix b) {
  const std::size_t n = a.size();
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t i = column; i < n; ++i) {
      if (std::abs(a[i][column]) > std::abs(a[pivot][column])) pivot = i;
    }
    std::swap(a[column], a[pivot]);
    std::swap(b[column], b[pivot]);
    for (std::size_t i = 0; i < n; ++i) {
      if (i == column) continue;
      const double factor = a[i][column] / a[column][column];
      for (std::size_t j = 0; j < n; ++j) {
        a[i][j] -= factor * a[column][j];
        b[i][j] -= factor * b[column][j];
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (double& value : b[i]) value /= a[i][i];
  }
  return b;
}

std::vector<double> OnBall(const std::vector<double>& x, double curvature) {
  const double k = std::sqrt(curvature), norm = std::sqrt(Dot(x, x));
  std::vector<double> out;
  for (double value : x) out.push_back(std::tanh(k * norm) * value / (k * norm));
  return out;
}

// -log softmax of logits[target].
double CrossEntropy(const std::vector<double>& logits, std::size_t target) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double value : logits) sum += std::exp(value - top);
  return top + std::log(sum) - logits[target];
}

}  // namespace

std::vector<double> Unit(const std::vector<double>& row) {
  const double norm = std::sqrt(Dot(row, row));
  std::vector<double> out;
  for (double value : row) out.push_back(value / norm);
  return out;
}

Denoised Denoise(const Matrix& features, const std::vector<std::int64_t>& labels, std::int64_t tenths) {
  Matrix rows;
  for (const auto& row : features) rows.push_back(Unit(row));
  const std::size_t d = rows[0].size();
  Denoised out{std::vector<double>(d, 0.0), std::vector<double>(rows.size()), std::vector<bool>(rows.size(), false)};
  for (const auto& row : rows) {
    for (std::size_t j = 0; j < d; ++j) out.column_norms[j] += row[j] * row[j];
  }
  for (double& norm : out.column_norms) norm = std::sqrt(norm);
  std::map<std::int64_t, std::vector<std::size_t>> classes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < d; ++j) rows[i][j] /= out.column_norms[j];
    classes[labels[i]].push_back(i);
  }
  for (auto& [label, members] : classes) {
    std::vector<double> mean(d, 0.0);
    for (std::size_t i : members) {
      for (std::size_t j = 0; j < d; ++j) mean[j] += rows[i][j] / static_cast<double>(members.size());
    }
    for (std::size_t i : members) {
      double squared = 0;
      for (std::size_t j = 0; j < d; ++j) squared += (rows[i][j] - mean[j]) * (rows[i][j] - mean[j]);
      out.distance[i] = std::sqrt(squared);
    }
    std::sort(members.begin(), members.end(),
              [&](std::size_t a, std::size_t b) { return out.distance[a] < out.distance[b]; });
    const std::int64_t kept = (tenths * static_cast<std::int64_t>(members.size()) + 9) / 10;
    for (std::int64_t i = 0; i < kept; ++i) out.keep[members[static_cast<std::size_t>(i)]] = true;
  }
  return out;
}

// Taylor's series of A / 1024, squared ten times.
Matrix OrthogonalByExponential(const Matrix& x) {
  constexpr int kSquarings = 10, kTerms = 14;
  const std::size_t n = x.size();
  const Matrix zero(n, std::vector<double>(n, 0.0));
  const Matrix step = Sum(zero, SkewOf(x), std::ldexp(1.0, -kSquarings));
  Matrix power = Identity(n), out = Identity(n);
  for (int term = 1; term <= kTerms; ++term) {
    power = Sum(zero, Product(power, step), 1.0 / term);
    out = Sum(std::move(out), power, 1.0);
  }
  for (int i = 0; i < kSquarings; ++i) out = Product(out, out);
  return out;
}

Matrix OrthogonalByCayley(const Matrix& x) {
  const Matrix skew = SkewOf(x);
  return Solve(Sum(Identity(x.size()), skew, -0.5), Sum(Identity(x.size()), skew, 0.5));
}

Bt2Row Bt2Transform(const std::vector<double>& phi1, const Matrix& b1, const Matrix& b2, const Matrix& f_weight,
                    const std::vector<double>& f_bias, double scale) {
  const auto m = static_cast<std::ptrdiff_t>(b1.size());
  const auto shared = static_cast<std::ptrdiff_t>(b2.size() - f_bias.size());
  Bt2Row out;
  std::vector<double> f = Times(f_weight, phi1);
  for (std::size_t i = 0; i < f.size(); ++i) f[i] += f_bias[i];
  out.phi2 = Unit(f);
  out.phi3 = Unit({phi1.begin(), phi1.begin() + m});
  out.phi4 = Times(b1, out.phi3);
  for (double& value : out.phi4) value *= scale;
  std::vector<double> joined = out.phi2;
  joined.insert(joined.end(), out.phi4.begin(), out.phi4.begin() + shared);
  out.phi5 = Times(b2, joined);
  out.phi_new = out.phi5;
  out.phi_new.insert(out.phi_new.end(), out.phi4.begin() + shared, out.phi4.end());
  return out;
}

double BallDistance(const std::vector<double>& x, const std::vector<double>& y, double curvature) {
  std::vector<double> a = OnBall(x, curvature);
  const std::vector<double> b = OnBall(y, curvature);
  for (double& value : a) value = -value;
  const double ab = Dot(a, b), aa = Dot(a, a), bb = Dot(b, b), c = curvature;
  const double below = 1.0 + 2.0 * c * ab + c * c * aa * bb;
  std::vector<double> sum;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum.push_back(((1.0 + 2.0 * c * ab + c * bb) * a[i] + (1.0 - c * aa) * b[i]) / below);
  }
  return 2.0 / std::sqrt(c) * std::atanh(std::sqrt(c * Dot(sum, sum)));
}

double HypMix(const Matrix& view0, const Matrix& view1, double curvature, double tau_e, double tau_h, double lambda) {
  Matrix views[2];
  for (const auto& row : view0) views[0].push_back(Unit(row));
  for (const auto& row : view1) views[1].push_back(Unit(row));
  double loss = 0;
  for (int side : {0, 1}) {
    const Matrix& own = views[side];
    const Matrix& other = views[1 - side];
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto logit = [&](const std::vector<double>& y) {
        return Dot(own[i], y) / tau_e - lambda * BallDistance(own[i], y, curvature) / tau_h;
      };
      std::vector<double> logits;
      for (const auto& y : other) logits.push_back(logit(y));
      for (std::size_t j = 0; j < own.size(); ++j) {
        if (j != i) logits.push_back(logit(own[j]));
      }
      loss += CrossEntropy(logits, i) / static_cast<double>(own.size());
    }
  }
  return loss;
}

}  // namespace lightcone::golden
