#include "geometry/metric.h"

#include <cmath>
#include <string>

#include "base/status.h"
#include "geometry/exact_kernels.h"

namespace lightcone {
namespace {

constexpr Metric kMetrics[] = {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean};

// "nan", "inf", "-inf": printf of some libraries says "-nan", which helps nobody.
std::string NameOfNonFinite(float value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

}  // namespace

std::string_view MetricName(Metric metric) {
  switch (metric) {
    case Metric::kLorentz:
      return "lorentz";
    case Metric::kCosine:
      return "cosine";
    case Metric::kInnerProduct:
      return "inner_product";
    case Metric::kEuclidean:
      return "euclidean";
  }
  return "unknown";
}

absl::StatusOr<Metric> ParseMetric(std::string_view text) {
  for (Metric metric : kMetrics) {
    if (text == MetricName(metric)) return metric;
  }
  return InvalidField("metric", StrCat("'", text, "'"), "lorentz, cosine, inner_product, euclidean");
}

absl::Status Space::Validate() const {
  if (MetricName(metric) == "unknown") {
    return InvalidField("metric", StrCat(static_cast<int>(metric)), "lorentz, cosine, inner_product, euclidean");
  }
  if (dimension < 1 || dimension > kDimensionMax) {
    return InvalidField("dimension", StrCat(dimension), StrCat("1 .. ", kDimensionMax));
  }
  if (metric != Metric::kLorentz) return absl::OkStatus();
  // Negated comparisons, so that NaN fails as well.
  if (!(curvature >= kCurvatureMin && curvature <= kCurvatureMax)) {
    return InvalidField("curvature", StrCat(curvature), "0.001 .. 1000");
  }
  const double clip_max = kScaledClipRadiusMax / std::sqrt(curvature);
  if (!(clip_radius > 0 && clip_radius <= clip_max)) {
    return InvalidField("clip_radius", StrCat(clip_radius),
                        StrCat("above 0, at most ", clip_max, " (10 / sqrt(curvature))"));
  }
  return absl::OkStatus();
}

double NormOf(std::span<const float> z) { return std::sqrt(ExactSquares(z.data(), z.size())); }

absl::Status CheckVector(const Space& space, std::span<const float> z, std::string_view field) {
  if (z.size() != static_cast<std::size_t>(space.dimension)) {
    return InvalidField(field, StrCat("a vector of ", z.size(), " numbers"), StrCat("exactly ", space.dimension));
  }
  const double norm = NormOf(z);
  // The squares of floats do not overflow a double: only a number that is not finite makes such a norm.
  for (std::size_t i = 0; i < z.size() && !std::isfinite(norm); ++i) {
    if (!std::isfinite(z[i])) {
      return InvalidField(StrCat(field, "[", i, "]"), NameOfNonFinite(z[i]), "a finite number");
    }
  }
  if (norm > kNormMax) return InvalidField(StrCat("norm of ", field), StrCat(norm), "at most 1e18");
  if (space.metric == Metric::kCosine && norm < kCosineNormMin) {
    return InvalidField(StrCat("norm of ", field), StrCat(norm), "at least 1e-18 under the cosine metric");
  }
  return absl::OkStatus();
}

}  // namespace lightcone
