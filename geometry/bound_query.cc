#include "geometry/bound_query.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/exact_kernels.h"
#include "geometry/lorentz.h"

namespace lightcone {
namespace {

constexpr double kUnitRoundoff = 0x1p-24;  // unit roundoff of float32

std::string Describe(const Space& space) {
  std::string text = StrCat(MetricName(space.metric), " of dimension ", space.dimension);
  if (space.metric == Metric::kLorentz) text += StrCat(" and curvature ", space.curvature);
  return text;
}

// The zero vector has no direction and keeps its zeros.
double InverseOf(double norm) { return norm > 0 ? 1.0 / norm : 1.0; }

}  // namespace

absl::StatusOr<BoundQuery> BoundQuery::Make(const Space& query_space, const Space& item_space,
                                            std::span<const float> z_q) {
  const bool same_curvature = query_space.metric != Metric::kLorentz || query_space.curvature == item_space.curvature;
  if (query_space.metric != item_space.metric || query_space.dimension != item_space.dimension || !same_curvature) {
    return FailedPrecondition(StrCat("distances between two spaces are not comparable: the query is ",
                                     Describe(query_space), ", the rows are ", Describe(item_space)));
  }
  LC_RETURN_IF_ERROR(CheckVector(query_space, z_q, "vector"));
  return BoundQuery(query_space, item_space, z_q);
}

BoundQuery::BoundQuery(const Space& query_space, const Space& item_space, std::span<const float> z_q)
    : item_space_(item_space), a_(z_q.size()), z_exact_(z_q.begin(), z_q.end()) {
  const double norm = NormOf(z_q);
  double a_scale = 1.0;  // a = a_scale * z_exact_
  switch (item_space.metric) {
    case Metric::kLorentz: {
      k_ = std::sqrt(item_space.curvature);
      radius_ = std::min(norm, query_space.clip_radius);
      for (double& x : z_exact_) x *= InverseOf(norm);
      a_scale = std::sinh(k_ * radius_) / k_;
      a_norm_ = norm > 0 ? a_scale : 0.0;
      b_ = static_cast<float>(std::cosh(k_ * radius_) / k_);
      const double limit = std::cosh(k_ * item_space.clip_radius) / k_;
      bias_limit_ = std::nextafter(static_cast<float>(limit), std::numeric_limits<float>::infinity());
      break;
    }
    case Metric::kCosine:
      for (double& x : z_exact_) x *= InverseOf(norm);
      a_norm_ = 1.0;
      break;
    case Metric::kInnerProduct:
      a_norm_ = norm;
      bias_limit_ = static_cast<float>(kNormMax);
      break;
    case Metric::kEuclidean:
      a_scale = 2.0;
      a_norm_ = 2.0 * norm;
      b_ = 1.0f;
      c_ = static_cast<float>(norm * norm);
      bias_limit_ = static_cast<float>(kNormMax * kNormMax);
      break;
  }
  a_norm_ *= 1.0 + 1e-6;  // the float32 values may be a little longer than the exact ones
  for (std::size_t i = 0; i < z_exact_.size(); ++i) a_[i] = static_cast<float>(a_scale * z_exact_[i]);
}

double BoundQuery::Distance(std::span<const float> z_g) const {
  LC_DCHECK(z_g.size() == z_exact_.size());
  const double* q = z_exact_.data();
  const float* g = z_g.data();
  const std::size_t n = z_exact_.size();
  switch (item_space_.metric) {
    case Metric::kInnerProduct:
      return -ExactDot(q, g, n);
    case Metric::kEuclidean:
      return std::sqrt(ExactSquaredGap(q, g, 1.0, n));
    case Metric::kLorentz:
    case Metric::kCosine:
      break;
  }
  // Both others work on unit directions: |u - v|^2 / 2 = 1 - cos without its cancellation. Scales as the constructor
  // does, so that equal vectors have a gap of exactly 0.
  const double norm = NormOf(z_g);
  const double gap_squared = ExactSquaredGap(q, g, InverseOf(norm), n);
  if (item_space_.metric == Metric::kCosine) return gap_squared / 2.0;
  return lorentz::GeodesicFromPolar(radius_, std::min(norm, item_space_.clip_radius), gap_squared,
                                    item_space_.curvature);
}

double BoundQuery::DistanceFromScore(float score) const {
  switch (item_space_.metric) {
    case Metric::kLorentz:
      return std::acosh(std::max(1.0, -item_space_.curvature * score)) / k_;
    case Metric::kCosine:
      return std::max(0.0, 1.0 - score);
    case Metric::kInnerProduct:
      return -static_cast<double>(score);
    case Metric::kEuclidean:
      return std::sqrt(std::max(0.0, -static_cast<double>(score)));
  }
  return 0;
}

double BoundQuery::ScoreOfDistance(double d) const {
  if (item_space_.metric == Metric::kInnerProduct) return -d;
  if (d < 0) return std::numeric_limits<double>::infinity();
  switch (item_space_.metric) {
    case Metric::kLorentz:
      return -std::cosh(k_ * d) / item_space_.curvature;
    case Metric::kCosine:
      return 1.0 - d;
    default:
      return -d * d;
  }
}

double BoundQuery::ScoreErrorMax(float bias_max) const {
  // Standard model of rounding (Higham 2002, 3.1): a dot product whose longest chain of additions has m steps errs by
  // at most m u |a||z| (1 + small). Every kernel keeps at least four partial sums, or has fewer than 16 terms; reducing
  // them takes at most 8 steps. The rest: rounding of a, scale, b, bias and c themselves, of three products and two
  // sums.
  const double bias = static_cast<double>(bias_max) * (1.0 + 2.0 * kUnitRoundoff);
  double row_norm = 1.0;  // largest |scale * z|
  switch (item_space_.metric) {
    case Metric::kLorentz:
      row_norm = std::sqrt(std::max(0.0, bias * bias - 1.0 / item_space_.curvature));
      break;
    case Metric::kCosine:
      break;
    case Metric::kInnerProduct:
      row_norm = bias;
      break;
    case Metric::kEuclidean:
      row_norm = std::sqrt(bias);
      break;
  }
  const double steps = item_space_.dimension / 4.0 + 20.0;
  double rounding =
      kUnitRoundoff * ((steps + 7.0) * a_norm_ * row_norm + 6.0 * b_ * bias + 4.0 * std::abs(static_cast<double>(c_)));
  // Kernels that add up squared differences: the rounding of each difference counts twice, and sums as above.
  const double farthest = a_norm_ / 2 + row_norm;
  if (item_space_.metric == Metric::kEuclidean) {
    rounding = std::max(rounding, kUnitRoundoff * (steps + 4.0) * farthest * farthest);
  }
  // Products below the normal range lose up to 2^-126 each before they are scaled.
  const double scale_max = item_space_.metric == Metric::kCosine ? 1.0 / kCosineNormMin : 2e3;
  return 1.05 * rounding + (item_space_.dimension + 8.0) * 0x1p-126 * scale_max;
}

}  // namespace lightcone
