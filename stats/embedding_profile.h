// What embeddings of one model have in common, learnt from a sample: their lengths, their mean direction and the few
// directions in which most of their differences lie. Tells whether a vector may come from that model at all.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace lightcone {

// Directions u = z / |z| of a model's embeddings are taken as a Gaussian with the mean and the covariance of a sample,
// and the covariance as one of `axes` principal variances and one variance for all the rest (probabilistic principal
// components: Tipping & Bishop 1999, equation 7). Threads: immutable.
class EmbeddingProfile {
 public:
  static constexpr std::size_t kRowsMin = 512;  // rows that a profile is learnt from at least
  static constexpr std::size_t kAxesMax = 64;

  // What a profile sees in a vector.
  struct Look {
    // How much rather the vector's direction is one of no model than one of this: the difference of the two log
    // likelihoods on the scale where the sample's median is 0 and the median of directions that are drawn evenly over
    // the sphere is 1. 0 where the sample does not tell the two apart.
    double strangeness = 0;
    bool rare = false;  // stranger than nearly all of the sample
    // Its length is far outside of the sample's range, or exactly 1 where hardly any of the sample is.
    bool odd_length = false;
    std::array<float, kAxesMax> place{};  // place along the principal axes, in standard deviations, -4 .. 4
  };

  // From vectors of one dimension of at least 2, in the order of their making; zero vectors are left out. nullopt where
  // fewer than kRowsMin are left, or all have one direction, as far as float32 tells. Costs 24 axes x dimension
  // multiplications a row.
  static std::optional<EmbeddingProfile> Make(std::span<const std::vector<float>> rows);

  std::size_t dimension() const { return mean_.size(); }
  std::size_t axes() const { return variances_.size(); }
  // Whether strangeness says anything: the sample's directions lie apart from random ones.
  bool tells_directions() const { return tells_directions_; }

  // nullopt for a zero vector, which has no direction. Costs axes x dimension multiplications.
  // REQUIRES: z has dimension() finite numbers.
  std::optional<Look> At(std::span<const float> z) const;

 private:
  EmbeddingProfile() = default;
  void LearnDirections(std::span<const std::vector<float>> directions);
  void LearnLengths(std::vector<double> logarithms);
  void LearnScale(std::span<const std::vector<float>> held_out);
  // The difference of the log likelihoods for a direction, divided by the dimension; writes the place.
  double Difference(std::span<const float> direction, std::array<float, kAxesMax>& place) const;

  std::vector<float> mean_;
  std::vector<float> axes_;        // unit vectors, axes x dimension
  std::vector<double> variances_;  // variances along these
  double rest_ = 0;                // variance along any other direction
  double log_determinant_ = 0;     // log of the covariance's determinant
  double median_ = 0, scale_ = 1;  // strangeness is (difference - median) / scale
  double rare_ = 0;                // strangeness from which a vector is rare
  bool tells_directions_ = false;
  double log_length_min_ = 0, log_length_max_ = 0;
  bool normalised_ = false;  // Some of the sample have the length 1.
};

}  // namespace lightcone
