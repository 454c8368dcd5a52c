#include "stats/embedding_profile.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/dcheck.h"
#include "geometry/kernels.h"

namespace lightcone {
namespace {

constexpr int kIterations = 12;   // iterations that find the axes; their spaces converge faster than the axes
constexpr double kShrink = 0.02;  // part of the mean variance that is added to each
constexpr double kPlaceMax = 4;   // bound, so that one odd vector moves no mean by much
constexpr std::size_t kRandomDirections = 256;
constexpr double kToldApart = 0.5;  // strangeness that at most one of a hundred held-out rows may have
constexpr double kRareMargin = 0.25, kRareMin = 0.6,
                 kRareMax = 0.9;          // margin above the strangest of a thousand; bounds
constexpr double kUnitLength = 1e-4;      // logarithm of a length that counts as 1: float32 and half precision round
constexpr double kUnitShareMin = 0.01;    // share of lengths of 1 that makes them nothing odd
constexpr double kLengthShare = 0.002;    // share of the sample's lengths that lie below, and above, its range
constexpr double kLengthSlackMin = 0.01;  // least slack of a logarithm of lengths: one of a hundred

// Puts rows of `size` numbers at right angles to each other, each of unit length (modified Gram-Schmidt).
void Orthonormalise(std::vector<float>& rows, std::size_t size, std::mt19937& random) {
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i * size < rows.size(); ++i) {
    float* const row = rows.data() + i * size;
    for (int attempt = 0;; ++attempt) {
      const float before = std::sqrt(Dot(row, row, size));
      for (std::size_t j = 0; j < i; ++j) {
        const float* const other = rows.data() + j * size;
        const float along = Dot(row, other, size);
        for (std::size_t d = 0; d < size; ++d) row[d] -= along * other[d];
      }
      const float length = std::sqrt(Dot(row, row, size));
      // A row that nearly lay in the others' span is mostly rounding: once more, or from anywhere.
      if (length > 1e-3f * before && length > 0) {
        for (std::size_t d = 0; d < size; ++d) row[d] /= length;
        if (attempt > 0 || length > 0.5f * before) break;
      } else {
        for (std::size_t d = 0; d < size; ++d) row[d] = normal(random);
      }
    }
  }
}

double QuantileOf(std::vector<double>& values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

std::optional<EmbeddingProfile> EmbeddingProfile::Make(std::span<const std::vector<float>> rows) {
  std::vector<std::vector<float>> directions;
  std::vector<double> lengths;
  for (const std::vector<float>& row : rows) {
    LC_DCHECK(row.size() == rows.front().size());
    double square = 0;
    for (const float x : row) square += double{x} * x;
    if (!(square > 0) || row.size() < 2) continue;
    const double length = std::sqrt(square);
    std::vector<float>& direction = directions.emplace_back(row);
    for (float& x : direction) x = static_cast<float>(x / length);
    lengths.push_back(std::log(length));
  }
  if (directions.size() < kRowsMin) return std::nullopt;
  // The later half is held out, because a sample lies nearer to its own axes than what comes later: by as much as the
  // subjects have changed since.
  const std::size_t learnt = directions.size() / 2;
  EmbeddingProfile profile;
  profile.LearnDirections(std::span(directions).first(learnt));
  if (!(profile.rest_ > 0)) return std::nullopt;
  profile.LearnScale(std::span(directions).subspan(learnt));
  profile.LearnLengths(std::move(lengths));
  return profile;
}

void EmbeddingProfile::LearnDirections(std::span<const std::vector<float>> directions) {
  const std::size_t dimension = directions.front().size(), axes = std::clamp<std::size_t>(dimension / 2, 1, kAxesMax);
  std::vector<double> sum(dimension);
  for (const std::vector<float>& u : directions) {
    for (std::size_t d = 0; d < dimension; ++d) sum[d] += u[d];
  }
  const double n = static_cast<double>(directions.size());
  for (const double s : sum) mean_.push_back(static_cast<float>(s / n));
  std::vector<float> centred(dimension * directions.size());
  double total = 0;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    float* const row = centred.data() + i * dimension;
    for (std::size_t d = 0; d < dimension; ++d) row[d] = directions[i][d] - mean_[d];
    total += double{Dot(row, row, dimension)};
  }
  total /= n;
  if (!(total > 1e-10)) return;  // rows of one direction
  // Orthogonal iteration (Golub & Van Loan 2013, algorithm 7.3.2) with the covariance, which is never written out.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  axes_.resize(axes * dimension);
  for (float& x : axes_) x = normal(random);
  Orthonormalise(axes_, dimension, random);
  std::vector<double> squares(axes);
  for (int iteration = 0; iteration <= kIterations; ++iteration) {
    std::vector<float> next(axes_.size());
    std::fill(squares.begin(), squares.end(), 0.0);
    for (std::size_t i = 0; i < directions.size(); ++i) {
      const float* const row = centred.data() + i * dimension;
      for (std::size_t j = 0; j < axes; ++j) {
        const float along = Dot(row, axes_.data() + j * dimension, dimension);
        squares[j] += double{along} * along;
        float* const to = next.data() + j * dimension;
        for (std::size_t d = 0; d < dimension; ++d) to[d] += along * row[d];
      }
    }
    if (iteration == kIterations) break;  // the variances along the last axes
    axes_ = std::move(next);
    Orthonormalise(axes_, dimension, random);
  }
  const double shrink = kShrink * total / static_cast<double>(dimension);
  double along_axes = 0;
  for (const double square : squares) {
    along_axes += square / n;
    variances_.push_back(square / n + shrink);
    log_determinant_ += std::log(variances_.back());
  }
  const double others = static_cast<double>(dimension - axes);
  rest_ = std::max(0.0, total - along_axes) / others + shrink;
  log_determinant_ += others * std::log(rest_);
}

void EmbeddingProfile::LearnScale(std::span<const std::vector<float>> held_out) {
  std::array<float, kAxesMax> place;
  std::vector<double> own, random;
  for (const std::vector<float>& u : held_out) own.push_back(Difference(u, place));
  std::mt19937 bits(2);
  std::normal_distribution<float> normal;
  std::vector<float> u(dimension());
  for (std::size_t i = 0; i < kRandomDirections; ++i) {
    for (float& x : u) x = normal(bits);
    const float length = std::sqrt(Dot(u.data(), u.data(), u.size()));
    for (float& x : u) x /= length;
    random.push_back(Difference(u, place));
  }
  median_ = QuantileOf(own, 0.5);
  scale_ = QuantileOf(random, 0.5) - median_;
  rare_ = std::clamp((QuantileOf(own, 0.999) - median_) / scale_ + kRareMargin, kRareMin, kRareMax);
  tells_directions_ = scale_ > 0 && QuantileOf(own, 0.99) - median_ < kToldApart * scale_;
}

void EmbeddingProfile::LearnLengths(std::vector<double> logarithms) {
  const double least = QuantileOf(logarithms, kLengthShare), most = QuantileOf(logarithms, 1 - kLengthShare);
  const auto units = std::count_if(logarithms.begin(), logarithms.end(),
                                   [](double logarithm) { return std::abs(logarithm) < kUnitLength; });
  normalised_ = static_cast<double>(units) >= kUnitShareMin * static_cast<double>(logarithms.size());
  const double slack = std::max(kLengthSlackMin, most - least);
  log_length_min_ = least - slack;
  log_length_max_ = most + slack;
}

double EmbeddingProfile::Difference(std::span<const float> direction, std::array<float, kAxesMax>& place) const {
  const std::size_t size = dimension();
  const double n = static_cast<double>(size);
  std::vector<float> centred(size);
  for (std::size_t d = 0; d < size; ++d) centred[d] = direction[d] - mean_[d];
  double left = Dot(centred.data(), centred.data(), size), squares = 0;
  for (std::size_t j = 0; j < axes(); ++j) {
    const double along = Dot(centred.data(), axes_.data() + j * size, size);
    left -= along * along;
    squares += along * along / variances_[j];
    place[j] = static_cast<float>(std::clamp(along / std::sqrt(variances_[j]), -kPlaceMax, kPlaceMax));
  }
  squares += std::max(0.0, left) / rest_;
  // Directions of no model: a Gaussian with variance 1/n along every axis.
  return (squares + log_determinant_ - n + n * std::log(n)) / (2 * n);
}

std::optional<EmbeddingProfile::Look> EmbeddingProfile::At(std::span<const float> z) const {
  LC_DCHECK(z.size() == dimension());
  double square = 0;
  for (const float x : z) square += double{x} * x;
  if (!(square > 0)) return std::nullopt;
  const double length = std::sqrt(square), logarithm = std::log(length);
  std::vector<float> direction(z.begin(), z.end());
  for (float& x : direction) x = static_cast<float>(x / length);
  Look look;
  look.odd_length =
      logarithm < log_length_min_ || logarithm > log_length_max_ || (!normalised_ && std::abs(logarithm) < kUnitLength);
  const double difference = Difference(direction, look.place);
  if (tells_directions_) look.strangeness = (difference - median_) / scale_;
  look.rare = look.strangeness > rare_;
  return look;
}

}  // namespace lightcone
