// What a distance says of an item: the chance that it is relevant, and how many of the relevant items are as near. Two
// such curves put a threshold on distances by one model on those by another.
// Threads: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stats/distance_calibration.h"

namespace lightcone {

struct RelevanceCurve {
  static constexpr size_t kPointsMax = 64;      // most points of a chance
  static constexpr size_t kQuantiles = 65;      // number of quantiles
  static constexpr int64_t kRelevantMin = 50;   // fewest relevant distances that tell anything
  static constexpr double kDistanceMax = 1e18;  // limit that keeps differences finite

  struct Point {
    double distance = 0, chance = 0;
    bool operator==(const Point&) const = default;
  };

  std::vector<Point> points;      // points by ascending distance, with chances that never rise
  std::vector<double> quantiles;  // [i]: the share (i / 64)^2 of all relevant items is within it; ascending

  // The chance that an item at this distance is relevant, 0 .. 1: linear between the points, that of the outermost
  // beyond them.
  double ChanceAt(double distance) const;

  // The distance of `to` within which the same share of the relevant items is as within `distance` of this curve.
  // Never falls with `distance`, and nearly undoes to.Translate(..., *this). Beyond what was seen it goes on by the
  // ratio of the two spreads.
  double Translate(double distance, const RelevanceCurve& to) const;

  // INVALID_ARGUMENT naming the field.
  absl::Status Validate() const;
  bool operator==(const RelevanceCurve&) const = default;
};

// `nearest`: distances of the nearest items of each query, relevant or not: chances are learnt from these, by isotonic
// regression (Zadrozny & Elkan 2002). `relevant`: distances of all relevant items. FAILED_PRECONDITION says what is
// missing.
absl::StatusOr<RelevanceCurve> LearnRelevance(const DistanceCounts& nearest, const DistanceCounts& relevant);

}  // namespace lightcone
