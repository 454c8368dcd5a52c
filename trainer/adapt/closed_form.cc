#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "trainer/adapt/closed_form_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kMomentRows = 8192;
constexpr int64_t kValidationRowsMax = 4096;
constexpr double kLambdas[] = {1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};

template <typename Add>
void ForBlocks(int64_t rows, const Add& add) {
  for (int64_t begin = 0; begin < rows; begin += kMomentRows) add(begin, std::min(kMomentRows, rows - begin));
}

Tensor Rows(const Tensor& x, int64_t begin, int64_t n) { return x.narrow(0, begin, n).to(torch::kFloat64); }

// Means, covariance of x and cross covariance of y with x, over the first `rows` rows.
struct Moments {
  Tensor mean_x, mean_y, xx, yx;
};

Moments MomentsOf(const Tensor& x, const Tensor& y, int64_t rows) {
  const auto zeros = [](c10::IntArrayRef shape) { return torch::zeros(shape, torch::kFloat64); };
  Moments m{zeros({x.size(1)}), zeros({y.size(1)}), zeros({x.size(1), x.size(1)}), zeros({y.size(1), x.size(1)})};
  const double share = 1.0 / static_cast<double>(rows);
  ForBlocks(rows, [&](int64_t begin, int64_t n) {
    m.mean_x += Rows(x, begin, n).sum(0) * share;
    m.mean_y += Rows(y, begin, n).sum(0) * share;
  });
  ForBlocks(rows, [&](int64_t begin, int64_t n) {
    const Tensor xb = Rows(x, begin, n) - m.mean_x, yb = Rows(y, begin, n) - m.mean_y;
    m.xx += torch::matmul(xb.t(), xb) * share;
    m.yx += torch::matmul(yb.t(), xb) * share;
  });
  return m;
}

// Solutions for any lambda from one decomposition of the covariance.
class RidgePath {
 public:
  explicit RidgePath(const Moments& moments) : moments_(moments) {
    std::tie(values_, vectors_) = torch::linalg_eigh(moments.xx);
    values_ = torch::clamp_min(values_, 0.0);
    // The floor makes W 0 for any lambda where all inputs are equal up to rounding.
    const double spread = values_.mean().item<double>(), square = moments.mean_x.square().mean().item<double>();
    mean_ = std::max({spread, 1e-12 * square, 1e-200});
    rotated_ = torch::matmul(moments.yx, vectors_);
  }

  LinearMap Solve(double lambda) const {
    const Tensor w = torch::matmul(rotated_ / (values_ + lambda * mean_).unsqueeze(0), vectors_.t());
    return {w, moments_.mean_y - torch::mv(w, moments_.mean_x), lambda};
  }

 private:
  Moments moments_;
  Tensor values_, vectors_, rotated_;
  double mean_ = 0;
};

}  // namespace

LinearMap FitRidge(const Tensor& x, const Tensor& y) {
  torch::NoGradGuard no_grad;
  const int64_t n = x.size(0), validation = std::min(std::max<int64_t>(n / 5, 1), kValidationRowsMax);
  const RidgePath path(MomentsOf(x, y, n - validation));
  const Tensor vx = Rows(x, n - validation, validation), vy = Rows(y, n - validation, validation);
  double best = std::numeric_limits<double>::infinity(), chosen = kLambdas[std::size(kLambdas) - 1];
  for (const double lambda : kLambdas) {
    const LinearMap map = path.Solve(lambda);
    const double error = (torch::matmul(vx, map.w.t()) + map.c - vy).square().sum().item<double>();
    if (error < best) {
      best = error;
      chosen = lambda;
    }
  }
  return RidgePath(MomentsOf(x, y, n)).Solve(chosen);
}

Tensor FitProcrustes(const Tensor& x, const Tensor& y, bool scaled) {
  torch::NoGradGuard no_grad;
  Tensor cross = torch::zeros({y.size(1), x.size(1)}, torch::kFloat64);
  ForBlocks(x.size(0),
            [&](int64_t begin, int64_t n) { cross += torch::matmul(Rows(y, begin, n).t(), Rows(x, begin, n)); });
  const auto [u, s, vt] = torch::linalg_svd(cross, /*full_matrices=*/false);
  const Tensor q = torch::matmul(u, vt);
  if (!scaled) return q;
  double square = 0;
  ForBlocks(x.size(0), [&](int64_t begin, int64_t n) {
    square += torch::matmul(Rows(x, begin, n), q.t()).square().sum().item<double>();
  });
  return square > 0 ? q * (s.sum().item<double>() / square) : q;
}

LowRank FactorLowRank(const Tensor& w, const Tensor& x, int64_t rank) {
  torch::NoGradGuard no_grad;
  const auto [values, vectors] = torch::linalg_eigh(MomentsOf(x, x.narrow(1, 0, 1), x.size(0)).xx);
  // The floors keep directions that no row has, and rows that are all alike, from factors beyond float32.
  const double floor = std::max(values.max().item<double>() * 1e-9, 1e-12);
  const Tensor root = torch::sqrt(torch::clamp_min(values, floor));
  const auto [u, s, vt] = torch::linalg_svd(torch::matmul(w, vectors) * root.unsqueeze(0), /*full_matrices=*/false);
  const Tensor share = torch::sqrt(s.narrow(0, 0, rank));
  const Tensor whitened = torch::matmul(vectors / root.unsqueeze(0), vt.narrow(0, 0, rank).t());
  return {u.narrow(1, 0, rank) * share, whitened * share};
}

}  // namespace lightcone
