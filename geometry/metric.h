// What a collection measures with: the metric, its dimension and, for the hyperboloid, curvature and clip radius.
// Threads: plain values and pure functions.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

// Every metric is used as a distance: smaller is nearer.
//   kLorentz       geodesic length on the hyperboloid of curvature -K; vectors are tangent vectors at the origin
//   kCosine        1 - cos(q, z), in [0, 2]
//   kInnerProduct  -<q, z>, any sign
//   kEuclidean     |q - z|
enum class Metric { kLorentz, kCosine, kInnerProduct, kEuclidean };

// "lorentz", "cosine", "inner_product", "euclidean".
std::string_view MetricName(Metric metric);

// The reverse; kInvalidArgument naming field 'metric', the text and the four names.
absl::StatusOr<Metric> ParseMetric(std::string_view text);

inline constexpr int kDimensionMax = 65'536;
inline constexpr double kCurvatureMin = 1e-3;
inline constexpr double kCurvatureMax = 1e3;
// Of sqrt(K) * clip radius: cosh(10)^2 is 1e8, scores of longer rows drown in float32 rounding.
inline constexpr double kScaledClipRadiusMax = 10.0;
inline constexpr double kNormMax = 1e18;         // squares and inner products of allowed vectors stay in float32
inline constexpr double kCosineNormMin = 1e-18;  // least |z| whose inverse is in the exact range of float32

// The space of one generation.
struct Space {
  Metric metric = Metric::kLorentz;
  int dimension = 0;         // numbers a vector, 1 .. 65536
  double curvature = 1.0;    // K > 0 of curvature -K, 1e-3 .. 1e3; Lorentz only
  double clip_radius = 1.0;  // zeta: longer tangent vectors are scaled down to it; Lorentz only

  // kInvalidArgument naming the field and its allowed range. Curvature and clip radius are not looked at outside
  // Lorentz.
  absl::Status Validate() const;

  bool operator==(const Space&) const = default;
};

// Whether `z` may be stored in, or asked of, a space: right length, all numbers finite, norm at most 1e18, and for
// cosine at least 1e-18. kInvalidArgument names `field` (for example "vector") and the first offending number, as in
// "field 'vector[17]' is nan; allowed: a finite number".
absl::Status CheckVector(const Space& space, std::span<const float> z, std::string_view field);

// |z| in float64.
double NormOf(std::span<const float> z);

}  // namespace lightcone
