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
  double entropy = 0, sharp = 0;  // entropies of softmax(cosine / tau) at tau = 0.1 and 0.05
  double cosine = 0, margin = 0;  // distance to the nearest mean; difference to the second nearest, or 0
  int32_t nearest = 0;            // class of the nearest mean
};
// `z` before or after the clip: directions only. REQUIRES: one class or more; z of the means' dimension.
ClassEvidence EvidenceOf(const ClassMeans& means, std::span<const float> z);

// Mean distance of the 4 nearest less that of the (at most) 15 behind them; 0 where there are no more than 4.
// `distances` ascends.
double Steepness(std::span<const double> distances);

inline constexpr size_t kHeadNeighbours = 64;  // number of neighbours whose distances the features read
inline constexpr size_t kHeadFew = 4;          // number of neighbours with features of their own
inline constexpr size_t kHeadFeatures = 10;
using HeadFeatures = std::array<double, kHeadFeatures>;

// An item among its neighbours.
struct HeadFacts {
  std::span<const double> distances;  // ascending distances to its nearest others, at most kHeadNeighbours
  double d1 = 1;                      // unit: median distance of the gallery's items to the nearest other
  double norm = 0;                    // norm of z before the clip
  ClassEvidence classes;
  double returned = 0;  // number of its kHeadFew nearest that have the item among theirs
  double alike = 0;     // number of its kHeadFew nearest with the same nearest class mean
};
// Entropies of the 16 (tau = .3 d1) and 64 (.15 d1) nearest, steepness and distance to the nearest (both in d1),
// returned, norm, cosine, margin, sharp entropy, alike. REQUIRES: a distance or more; d1 > 0.
HeadFeatures HeadFeaturesOf(const HeadFacts& facts);
// The same features with these two numbers, when they come to be known after the others.
HeadFeatures WithNeighbours(HeadFeatures features, double returned, double alike);

struct FailureHead {
  // What the regression reads: the standardised features, limited to +-5, and their products of two, over 3.
  static constexpr size_t kTerms = kHeadFeatures + kHeadFeatures * (kHeadFeatures + 1) / 2;

  HeadFeatures mean{}, deviation{};  // standardisation of the features; deviation > 0
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
