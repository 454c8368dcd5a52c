#include "stats/query_likeness.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"
#include "geometry/kernels.h"

namespace lightcone {
namespace {

constexpr size_t kRowsMin = 32;
// On text half and twice of each find the same to 0.01.
constexpr double kSharpness = 0.5;   // sharpness of exp(-|u - v|), in units of 1 / s
constexpr double kLinear = 0.25;     // weight of the products, in units of 1 / s^2
constexpr double kNoise = 0.05;      // noise of the known values
constexpr double kSpreadMin = 1e-4;  // mean square distance from the mean: cosines in float32 are right to 1e-7

// z / |z|; zeros of zeros.
std::vector<float> DirectionOf(std::span<const float> z) {
  double square = 0;
  for (const float x : z) square += static_cast<double>(x) * x;
  const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
  std::vector<float> direction(z.size());
  for (size_t d = 0; d < z.size(); ++d) direction[d] = static_cast<float>(z[d] * scale);
  return direction;
}

// L^-1 of a positive definite a = L L^T, size x size; nullopt where rounding has made it none.
std::optional<std::vector<double>> InverseFactor(std::vector<double> a, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i * size + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * size + k] * a[j * size + k];
      if (i == j && !(sum > kNoise / 2)) return std::nullopt;
      a[i * size + j] = i == j ? std::sqrt(sum) : sum / a[j * size + j];
    }
  }
  std::vector<double> inverse(size * size, 0.0);
  for (size_t column = 0; column < size; ++column) {
    for (size_t i = column; i < size; ++i) {
      double sum = i == column ? 1 : 0;
      for (size_t k = column; k < i; ++k) sum -= a[i * size + k] * inverse[k * size + column];
      inverse[i * size + column] = sum / a[i * size + i];
    }
  }
  return inverse;
}

}  // namespace

std::optional<LikenessKernel> LikenessKernel::Make(std::span<const std::vector<float>> rows) {
  std::vector<std::vector<float>> directions;
  for (const std::vector<float>& row : rows) {
    LC_DCHECK(directions.empty() || row.empty() || row.size() == directions[0].size());
    if (std::any_of(row.begin(), row.end(), [](float x) { return x != 0; })) directions.push_back(DirectionOf(row));
  }
  const size_t n = directions.size();
  if (n < kRowsMin) return std::nullopt;
  const size_t dimension = directions[0].size();
  std::vector<double> mean(dimension, 0.0);
  for (const std::vector<float>& u : directions) {
    for (size_t d = 0; d < dimension; ++d) mean[d] += u[d] / static_cast<double>(n);
  }
  double spread = 0;
  for (const std::vector<float>& u : directions) {
    for (size_t d = 0; d < dimension; ++d) spread += (u[d] - mean[d]) * (u[d] - mean[d]) / static_cast<double>(n);
  }
  if (spread < kSpreadMin) return std::nullopt;
  LikenessKernel kernel;
  kernel.mean_.assign(mean.begin(), mean.end());
  for (const double x : mean) kernel.mean_square_ += x * x;
  kernel.sharpness_ = kSharpness / std::sqrt(spread);
  kernel.linear_ = kLinear / spread;
  const size_t known = std::min(n, kRowsMax);
  for (size_t i = 0; i < known; ++i) {
    const std::vector<float>& u = directions[i * n / known];
    kernel.directions_.insert(kernel.directions_.end(), u.begin(), u.end());
    kernel.along_.push_back(Dot(u.data(), kernel.mean_.data(), dimension));
  }
  std::vector<double> gram(known * known);
  for (size_t i = 0; i < known; ++i) {
    for (size_t j = 0; j < known; ++j) {
      const float* const a = &kernel.directions_[i * dimension];
      const float* const b = &kernel.directions_[j * dimension];
      gram[i * known + j] = i == j ? kernel.Kernel(1, kernel.along_[i], kernel.along_[i]) + kNoise
                                   : kernel.Kernel(Dot(a, b, dimension), kernel.along_[i], kernel.along_[j]);
    }
  }
  const std::optional<std::vector<double>> factor = InverseFactor(std::move(gram), known);
  if (!factor) return std::nullopt;
  kernel.factor_.assign(factor->begin(), factor->end());
  return kernel;
}

double LikenessKernel::Kernel(double cosine, double along_a, double along_b) const {
  const double distance = std::sqrt(2 * std::max(0.0, 1 - cosine));
  return std::exp(-sharpness_ * distance) + linear_ * (cosine - along_a - along_b + mean_square_);
}

void LikenessKernel::FeaturesOf(std::span<const float> z, std::span<float> features) const {
  LC_DCHECK(z.size() == dimension() && features.size() == this->features());
  const std::vector<float> u = DirectionOf(z);
  const float along = Dot(u.data(), mean_.data(), u.size());
  std::vector<float> kernels(rows());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const float cosine = Dot(u.data(), &directions_[i * u.size()], u.size());
    kernels[i] = static_cast<float>(Kernel(cosine, along, along_[i]));
  }
  for (size_t i = 0; i < kernels.size(); ++i) features[i] = Dot(&factor_[i * kernels.size()], kernels.data(), i + 1);
  features.back() = along;
}

QueryLikeness LikenessKernel::Of(std::span<const float> query) const {
  std::vector<float> features(this->features());
  FeaturesOf(query, features);
  const double along = features.back();
  const double known = Dot(features.data(), features.data(), rows());
  return {*this, std::move(features), std::max(0.0, Kernel(1, along, along) - known) + kNoise};
}

double QueryLikeness::Distance(double cosine_distance, std::span<const float> features) const {
  LC_DCHECK(features.size() == features_.size());
  const double known = Dot(features.data(), features_.data(), features.size() - 1);
  const double covariance = kernel_->Kernel(1 - cosine_distance, features.back(), features_.back()) - known;
  return 1 - covariance / variance_;
}

}  // namespace lightcone
