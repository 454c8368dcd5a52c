// Makes one distance of two that different models give the same item: each standardised over the items of a gallery,
// their weighted mean, put on the scale of the second model's distances.
// Threads: values and pure functions.
#pragma once

#include <cstddef>
#include <span>

namespace lightcone {

// Mean and deviation of a query's distances to the rows of a gallery, or to a sample of them.
struct DistanceScale {
  static constexpr size_t kRowsMin = 32;  // fewest distances that tell what a query's are like

  double mean = 0, deviation = 1;
  bool known = false;  // whether there were as many finite ones, and these not all alike

  // Of the finite ones. Without any, and where all are alike, the deviation is 1.
  static DistanceScale Of(std::span<const double> distances);
};

// offset + older_slope * older + newer_slope * newer. Both slopes are 0 or more, so that a row that is farther by both
// is never nearer by this.
struct DistanceFusion {
  double offset = 0, older_slope = 0, newer_slope = 1;

  // Of `older_weight` parts of the standardised older distance and 1 - older_weight of the standardised newer one. It
  // has the mean and the deviation that the newer distances have over the rows. The spans are distances to the same
  // rows; pairs that are not both finite are left out. REQUIRES: both are as long; 0 <= older_weight <= 1.
  static DistanceFusion Make(std::span<const double> older, std::span<const double> newer, double older_weight);

  // newer - e w / (1 - w) (1 - likeness), w the older weight, likeness a QueryLikeness::Distance, and e how far the
  // newer model's way takes the query's own older vector from its newer one: `newer_self`, or where the way makes none
  // of it and that is infinite, the mean of the newer distances. As if the query were one more pair of vectors that the
  // way had been fitted from: the posterior mean of a Gaussian process moves by covariance with the new point times its
  // error (Rasmussen & Williams 2006, equation 2.25). A way that carries the query well ranks almost alone.
  // REQUIRES: 0 <= older_weight < 1.
  static DistanceFusion MakeConditioned(std::span<const double> newer, double newer_self, double older_weight);

  // The same order, with the mean and the deviation that `own` has over its nearest fifth of the rows, over the nearest
  // fifth of the rows that have these distances, and of at least kRowsMin. Hits are among these: matched over all rows,
  // mixed galleries of texts lost a tenth in mAP. Unchanged where either scale is not known.
  // REQUIRES: `older` and `newer` as Make.
  DistanceFusion OnScaleOf(std::span<const double> own, std::span<const double> older,
                           std::span<const double> newer) const;

  double Of(double older, double newer) const { return offset + older_slope * older + newer_slope * newer; }
};

}  // namespace lightcone
