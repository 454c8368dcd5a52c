#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "trainer/adapt/error_head_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kFolds = 5;
constexpr int64_t kManyFeatures = 1024;
constexpr double kRidges[] = {1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0};
// Least error as a share of the mean error: the logarithm of an exact hit would outweigh all others.
constexpr double kErrorFloorShare = 1e-3;

// The normal equations of some rows, which any ridge needs one solve for.
struct Normal {
  Tensor mean_x, gram, right;
  double mean_y = 0;
};

Normal NormalOf(const Tensor& x, const Tensor& y) {
  const double n = static_cast<double>(x.size(0));
  Normal normal;
  normal.mean_x = x.mean(0);
  normal.mean_y = y.mean().item<double>();
  const Tensor centred = x - normal.mean_x;
  normal.gram = torch::matmul(centred.t(), centred) / n;
  normal.right = torch::mv(centred.t(), y - normal.mean_y) / n;
  return normal;
}

struct Solution {
  Tensor w;
  double bias = 0;
};

Solution Solve(const Normal& normal, double ridge) {
  const Tensor gram = normal.gram + torch::eye(normal.gram.size(0), torch::kFloat64) * ridge;
  const Tensor w = torch::linalg_solve(gram, normal.right);
  return {w, normal.mean_y - w.dot(normal.mean_x).item<double>()};
}

// The ridge with the greatest cross-validated share of explained variance, and that share. Ridge 0 without such a
// share.
std::pair<double, double> ChooseRidge(const Tensor& x, const Tensor& y) {
  const double variance = (y - y.mean()).square().sum().item<double>();
  if (!(variance > 0)) return {0, 0};
  // Thousands of features make a solve slow, and small ridges useless on a few thousand rows.
  const size_t first = x.size(1) > kManyFeatures ? 3 : 0;
  std::vector<double> residuals(std::size(kRidges), 0.0);
  const int64_t n = x.size(0);
  for (int64_t fold = 0; fold < kFolds; ++fold) {
    const int64_t begin = n * fold / kFolds, size = n * (fold + 1) / kFolds - begin;
    const auto others = [&](const Tensor& t) {
      return torch::cat({t.narrow(0, 0, begin), t.narrow(0, begin + size, n - begin - size)});
    };
    const Normal normal = NormalOf(others(x), others(y));
    for (size_t i = first; i < residuals.size(); ++i) {
      const Solution solution = Solve(normal, kRidges[i]);
      const Tensor predicted = torch::mv(x.narrow(0, begin, size), solution.w) + solution.bias;
      residuals[i] += (y.narrow(0, begin, size) - predicted).square().sum().item<double>();
    }
  }
  double best = 0, ridge = 0;
  for (size_t i = first; i < residuals.size(); ++i) {
    const double r2 = 1 - residuals[i] / variance;
    if (r2 > best) {
      best = r2;
      ridge = kRidges[i];
    }
  }
  return {ridge, best};
}

ErrorHead FitOn(AdapterHead kind, const Tensor& features, const Tensor& norms, const Tensor& y) {
  const Tensor x = torch::cat({features.to(torch::kFloat64), norms.unsqueeze(1)}, 1);
  const Tensor mean = x.mean(0), deviation = torch::sqrt((x - mean).square().mean(0));
  // Units that hardly ever fire are left out: a division by their deviation would give weights without bound.
  const Tensor used = deviation > 1e-6 * torch::clamp_min(deviation.max(), 1e-12);
  const Tensor scale = torch::where(used, 1.0 / torch::clamp_min(deviation, 1e-300), torch::zeros_like(deviation));
  const Tensor standard = (x - mean) * scale;
  const auto [ridge, r2] = ChooseRidge(standard, y);
  if (ridge == 0) return {};
  const Solution solution = Solve(NormalOf(standard, y), ridge);
  const Tensor weights = (solution.w * scale).contiguous();
  ErrorHead head;
  head.head = kind;
  head.weights.assign(weights.data_ptr<double>(), weights.data_ptr<double>() + weights.numel());
  head.bias = static_cast<float>(solution.bias - weights.dot(mean).item<double>());
  head.r2 = r2;
  return head;
}

}  // namespace

ErrorHead FitErrorHead(const Tensor& z, const Tensor& hidden, const Tensor& errors) {
  torch::NoGradGuard no_grad;
  const Tensor e = errors.to(torch::kFloat64);
  const double floor = std::max(e.mean().item<double>() * kErrorFloorShare, 1e-12);
  const Tensor y = torch::log(torch::clamp_min(e, floor));
  const Tensor norms = torch::sqrt(z.to(torch::kFloat64).square().sum(1));
  ErrorHead best = FitOn(AdapterHead::kInput, z, norms, y);
  if (hidden.defined()) {
    ErrorHead other = FitOn(AdapterHead::kHidden, hidden, norms, y);
    if (other.r2 > best.r2) best = std::move(other);
  }
  return best;
}

}  // namespace lightcone
