// A small head that tells which stored items a newer model will fail to find, from where an item stands among its
// nearest neighbours in its own gallery and among the classes of the model that embedded it
// (docs/internals/training-steps.md, Uncertainty). trainer/uncertainty fits it; the server orders a backfill by it.
// Threads: values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace lightcone {

// Unit directions of the mean directions of a model's training classes: classes x dimension, row major. A class without
// images has none (all 0).
struct ClassMeans {
  size_t dimension = 0;
  std::vector<float> rows;

  size_t classes() const { return dimension == 0 ? 0 : rows.size() / dimension; }
  bool operator==(const ClassMeans&) const = default;
};

// What an item's direction says of those classes; all of 1 - cosine to the means.
struct ClassEvidence {
  double entropy = 0, sharp = 0;  // of softmax(cosine / tau) at tau = .1 and .05
  double cosine = 0, margin = 0;  // of the nearest mean; that less the second one's (0 if there is but one)
  int32_t nearest = 0;            // class of the nearest mean
};
// `z` before or after the clip: directions only. REQUIRES: one class or more; z of the means' dimension.
ClassEvidence EvidenceOf(const ClassMeans& means, std::span<const float> z);

// Mean distance of the 4 nearest less that of the (at most) 15 behind them; 0 where there are no more than 4.
// `distances` ascends.
double Steepness(std::span<const double> distances);

inline constexpr size_t kHeadNeighbours = 64;  // whose distances the features read
inline constexpr size_t kHeadFew = 4;          // of them are looked at one by one
inline constexpr size_t kHeadFeatures = 10;
using HeadFeatures = std::array<double, kHeadFeatures>;

// An item among its neighbours.
struct HeadFacts {
  std::span<const double> distances;  // to its kHeadNeighbours nearest (or as many as there are), ascending, itself out
  double d1 = 1;                      // unit: the gallery's median distance to the nearest that is no copy
  double norm = 0;                    // of z before the clip
  ClassEvidence classes;
  double returned = 0;  // of its kHeadFew nearest, how many have the item among theirs
  double alike = 0;     // of those, how many are nearest to the same class mean
};
// Entropies of the 16 (tau = .3 d1) and 64 (.15 d1) nearest, steepness and distance to the nearest (both in d1),
// returned, norm, cosine, margin, sharp entropy, alike. REQUIRES: a distance or more; d1 > 0.
HeadFeatures HeadFeaturesOf(const HeadFacts& facts);
// The same features with these two numbers, when they come to be known after the others.
HeadFeatures WithNeighbours(HeadFeatures features, double returned, double alike);

struct FailureHead {
  // What the regression reads: the standardised features, limited to +-5, and their products of two, over 3.
  static constexpr size_t kTerms = kHeadFeatures + kHeadFeatures * (kHeadFeatures + 1) / 2;

  HeadFeatures mean{}, deviation{};  // deviation > 0
  std::array<double, kTerms> weights{};
  double bias = 0;

  std::array<double, kTerms> TermsOf(const HeadFeatures& features) const;
  // Log odds of being retrieved wrongly.
  double Score(const HeadFeatures& features) const;
  // INVALID_ARGUMENT: a number that is not finite, a deviation of 0 or below, a weight beyond +-1e6.
  absl::Status Validate() const;
  bool operator==(const FailureHead&) const = default;
};

}  // namespace lightcone
