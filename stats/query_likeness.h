// How alike a query and a row of a gallery are by their directions, beyond what each has in common with the gallery.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lightcone {

class QueryLikeness;

// The covariance of a Gaussian process at two vectors once its values at a few rows of the gallery are known (Rasmussen
// & Williams 2006, equation 2.24): k(x, q) - k_x^T (K + 0.05)^-1 k_q with k(x, q) = exp(-|u - v| / (2 s)) +
// <u - m, v - m> / (4 s^2), u = x / |x|, v = q / |q|, m the mean of the rows' directions and s their root mean square
// distance from it. It is a function of the cosine of x and q and of features that each has alone.
// Threads: immutable.
class LikenessKernel {
 public:
  static constexpr std::size_t kRowsMax = 64;  // rows that are taken for known

  // From rows of one dimension, at most kRowsMax evenly spread ones of them; empty rows and those of zeros are left
  // out. nullopt with fewer than 32 others, and where these all have one direction, as far as float32 tells. Costs
  // kRowsMax^2 (dimension + kRowsMax).
  static std::optional<LikenessKernel> Make(std::span<const std::vector<float>> rows);

  std::size_t features() const { return rows() + 1; }
  std::size_t dimension() const { return mean_.size(); }

  // Writes the features of a row, or of a query. Costs kRowsMax (dimension + kRowsMax).
  // REQUIRES: z has the rows' dimension and is finite; features has features() numbers.
  void FeaturesOf(std::span<const float> z, std::span<float> features) const;

  // REQUIRES: as FeaturesOf.
  QueryLikeness Of(std::span<const float> query) const;

 private:
  LikenessKernel() = default;
  std::size_t rows() const { return directions_.size() / mean_.size(); }
  // k of two vectors, from their cosine and from the parts of each along the mean.
  double Kernel(double cosine, double along_a, double along_b) const;

  friend class QueryLikeness;

  std::vector<float> mean_;
  std::vector<float> directions_;  // directions of the known rows, rows x dimension
  std::vector<float> along_;       // parts of these along the mean
  std::vector<float> factor_;      // L^-1 of K + 0.05 = L L^T, rows x rows
  double mean_square_ = 0;         // |m|^2
  double sharpness_ = 0;           // 1 / (2 s)
  double linear_ = 0;              // 1 / (4 s^2)
};

// One query's side. Threads: immutable; the kernel must outlive it.
class QueryLikeness {
 public:
  // 1 - c: c is the covariance with a row in parts of the query's own variance and the noise of 0.05, so that of the
  // gallery's value at the row it is what a value at the query says (equation 2.25). About 1 for most rows, and near 0
  // for the query itself. `cosine_distance`: 1 - <u, v>; `features`: the row's.
  double Distance(double cosine_distance, std::span<const float> features) const;

 private:
  friend class LikenessKernel;
  QueryLikeness(const LikenessKernel& kernel, std::vector<float> features, double variance)
      : kernel_(&kernel), features_(std::move(features)), variance_(variance) {}

  const LikenessKernel* kernel_;
  std::vector<float> features_;
  double variance_;  // variance of the query, with the noise
};

}  // namespace lightcone
