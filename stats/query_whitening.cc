#include "stats/query_whitening.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/dcheck.h"
#include "geometry/kernels.h"

namespace lightcone {
namespace {

constexpr double kNoise = 0.5;  // r: on text, anything from 0.1 to 1 finds the same to 0.01
constexpr size_t kRowsMin = 32;
constexpr double kSpreadMin = 1e-9;     // mean square distance from the mean below which directions are all alike
constexpr double kDirectionMin = 1e-6;  // length of a difference of directions that float32 vectors still tell

double SquareOf(std::span<const float> z) {
  double square = 0;
  for (const float x : z) square += static_cast<double>(x) * x;
  return square;
}

// In four sums, which a processor adds side by side.
double DotOf(const double* a, const double* b, size_t n) {
  double sums[4] = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Lower triangle L of a = L L^T in place of a's, size x size. REQUIRES: a is positive definite.
void Factorise(size_t size, std::vector<double>* a) {
  for (size_t i = 0; i < size; ++i) {
    double* const row = a->data() + i * size;
    for (size_t j = 0; j <= i; ++j) {
      const double* const other = a->data() + j * size;
      const double sum = row[j] - DotOf(row, other, j);
      row[j] = i == j ? std::sqrt(sum) : sum / other[j];
    }
  }
}

}  // namespace

std::optional<QueryWhitening> QueryWhitening::Make(std::span<const std::vector<float>> rows) {
  std::vector<const std::vector<float>*> used;
  for (const std::vector<float>& row : rows) {
    LC_DCHECK(used.empty() || row.empty() || row.size() == used[0]->size());
    if (SquareOf(row) > 0) used.push_back(&row);
  }
  const size_t n = used.size();
  if (n < kRowsMin) return std::nullopt;
  const size_t dimension = used[0]->size();
  std::vector<double> centred(n * dimension), mean(dimension, 0.0);
  for (size_t i = 0; i < n; ++i) {
    const double length = std::sqrt(SquareOf(*used[i]));
    for (size_t d = 0; d < dimension; ++d) {
      centred[i * dimension + d] = (*used[i])[d] / length;
      mean[d] += centred[i * dimension + d] / static_cast<double>(n);
    }
  }
  double spread = 0;
  for (size_t i = 0; i < centred.size(); ++i) {
    centred[i] -= mean[i % dimension];
    spread += centred[i] * centred[i] / static_cast<double>(n);
  }
  if (spread < kSpreadMin) return std::nullopt;
  // With X the centred rows: (X^T X / (n t) + r)^-1 = (1 - X^T (X X^T + n t r)^-1 X) / r, and P = L^-1 X.
  const double ridge = static_cast<double>(n) * kNoise * spread / static_cast<double>(dimension);
  std::vector<double> products(n * n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const double *const a = &centred[i * dimension], *const b = &centred[j * dimension];
      products[i * n + j] = DotOf(a, b, dimension) + (i == j ? ridge : 0);
    }
  }
  Factorise(n, &products);
  for (size_t i = 0; i < n; ++i) {
    double* const row = &centred[i * dimension];
    for (size_t j = 0; j < i; ++j) {
      const double weight = products[i * n + j];
      const double* const other = &centred[j * dimension];
      for (size_t d = 0; d < dimension; ++d) row[d] -= weight * other[d];
    }
    for (size_t d = 0; d < dimension; ++d) row[d] /= products[i * n + i];
  }
  return QueryWhitening({mean.begin(), mean.end()}, {centred.begin(), centred.end()});
}

std::vector<float> QueryWhitening::Of(std::span<const float> query) const {
  LC_DCHECK(query.size() == mean_.size());
  const double length = std::sqrt(SquareOf(query));
  if (!(length > 0)) return {};
  std::vector<float> centred(query.size());
  for (size_t d = 0; d < query.size(); ++d) centred[d] = static_cast<float>(query[d] / length - mean_[d]);
  if (SquareOf(centred) < kDirectionMin * kDirectionMin) return {};
  std::vector<float> result = centred;
  for (size_t begin = 0; begin < factor_.size(); begin += centred.size()) {
    const float share = Dot(factor_.data() + begin, centred.data(), centred.size());
    for (size_t d = 0; d < centred.size(); ++d) result[d] -= share * factor_[begin + d];
  }
  return result;
}

}  // namespace lightcone
