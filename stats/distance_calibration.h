// Puts the distances of one leg of a mixed ranking on the scale of another leg's: an increasing affine map, learnt from
// distances of which it is known whether the item is relevant.
// Threads: values and pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

// d -> offset + slope d. It never turns a leg's own order round; rounding may make two distances one.
struct DistanceCalibration {
  static constexpr double kSlopeMin = 1e-6, kSlopeMax = 1e6;
  static constexpr double kOffsetMax = 1e18;  // limit that keeps sums with any distance finite

  double offset = 0, slope = 1;

  double Of(double distance) const { return offset + slope * distance; }
  // INVALID_ARGUMENT naming field and range.
  absl::Status Validate() const;
  bool operator==(const DistanceCalibration&) const = default;
};

// Distances of a leg, of relevant items and of others, counted. Those that share sign, power of two and 14 bits behind
// it (that is, agree to within 1/16384 of themselves) are one point at their mean, so that what is kept does not grow
// with their number.
class DistanceCounts {
 public:
  struct Sums {
    int64_t count = 0;
    double distance = 0;
  };

  // A distance that is not finite is counted apart, and no fit is made of it.
  void Add(double distance, bool relevant);
  void Add(const DistanceCounts& other);

  // By leading bits of the distance: [0] of others, [1] of relevant items.
  const absl::flat_hash_map<uint64_t, std::array<Sums, 2>>& bins() const { return bins_; }
  int64_t not_finite() const { return not_finite_; }

 private:
  absl::flat_hash_map<uint64_t, std::array<Sums, 2>> bins_;
  int64_t not_finite_ = 0;
};

// Log odds of being relevant at a distance d: intercept - steepness d.
struct RelevanceFit {
  double intercept = 0, steepness = 0;
};

// By maximum likelihood (logistic regression by Newton's method, which is iteratively reweighted least squares; with a
// ridge of 1e-9 a distance on the steepness in units of their deviation, so that relevant items may be rare).
// FAILED_PRECONDITION says what the distances are not good for: some are not finite, all are of one kind or alike, one
// separates the kinds, so that no steepness is great enough, or nearer items are not more often relevant.
absl::StatusOr<RelevanceFit> FitRelevance(const DistanceCounts& counts);

// Mean and spread of distances, summed up without cancellation (Welford 1962, Chan et al. 1983).
struct DistanceMoments {
  int64_t count = 0;
  double mean = 0, squares = 0;  // squares: sum of squared differences from the mean

  void Add(double distance);
  void Add(const DistanceMoments& other);
  double deviation() const;  // 0 without any
};

// Distances of the leg `from` -> distances of the leg `to`, by those of the nearest items of each query, relevant or
// not: equal mean and equal deviation. Where few items are relevant the hits that are shown are told by these, not by
// all distances. FAILED_PRECONDITION where either has no spread, or that is no map that Validate allows.
absl::StatusOr<DistanceCalibration> MatchNearest(const DistanceMoments& from, const DistanceMoments& to);

// Distances of the leg `from` -> distances of the leg `to` at which an item is as likely to be relevant (Platt 1999
// makes probabilities of scores so): equal log odds, a_from - b_from d = a_to - b_to d', are
//     d' = (a_to - a_from) / b_to + (b_from / b_to) d.
// FAILED_PRECONDITION where that is no map that Validate allows.
absl::StatusOr<DistanceCalibration> Equate(const RelevanceFit& from, const RelevanceFit& to);

}  // namespace lightcone
