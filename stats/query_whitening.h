// Makes a query's cosines with the rows of a gallery say what is particular to both. The parts that most rows share,
// such as the gallery's mean, count for little in them.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lightcone {

// The direction w(q) = (S / t + r)^-1 (u(q) - m) of a query: u(z) = z / |z|, m and S mean and covariance of the rows'
// directions, t the mean of the diagonal of S, r = 0.5. <w(q), u(x) - m> is, but for a factor, the covariance of two
// outputs of a Gaussian process with a linear kernel once its outputs at the rows are known (Rasmussen & Williams 2006,
// equation 2.11, for the rows as inputs and r as the noise). Threads: immutable.
class QueryWhitening {
 public:
  // From rows of one dimension, at most a few hundred; empty rows and those of zeros are left out. nullopt with fewer
  // than 32 others, and where these all have one direction. Costs rows^2 dimension.
  static std::optional<QueryWhitening> Make(std::span<const std::vector<float>> rows);

  // w(q), of any length. Empty where q has no direction, or the mean's. Costs rows dimension. REQUIRES: q has the rows'
  // dimension and is finite.
  std::vector<float> Of(std::span<const float> query) const;

 private:
  QueryWhitening(std::vector<float> mean, std::vector<float> factor)
      : mean_(std::move(mean)), factor_(std::move(factor)) {}

  std::vector<float> mean_;
  // P of (S / t + r)^-1 = (1 - P^T P) / r (Woodbury's identity), rows x dimension.
  std::vector<float> factor_;
};

}  // namespace lightcone
