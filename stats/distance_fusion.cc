#include "stats/distance_fusion.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/dcheck.h"

namespace lightcone {
namespace {

// Whether a division may be made by it: not where rounding alone tells distances apart.
bool IsUsable(double deviation, double size) {
  constexpr double kRounding = 1e-9;
  return std::isfinite(deviation) && deviation > kRounding * size;
}

// The distances to rows that have both.
std::pair<std::vector<double>, std::vector<double>> FinitePairs(std::span<const double> older,
                                                                std::span<const double> newer) {
  LC_DCHECK(older.size() == newer.size());
  std::pair<std::vector<double>, std::vector<double>> pairs;
  for (size_t i = 0; i < older.size(); ++i) {
    if (!std::isfinite(older[i]) || !std::isfinite(newer[i])) continue;
    pairs.first.push_back(older[i]);
    pairs.second.push_back(newer[i]);
  }
  return pairs;
}

std::vector<double> FiniteOf(std::span<const double> distances) {
  std::vector<double> finite;
  for (const double d : distances) {
    if (std::isfinite(d)) finite.push_back(d);
  }
  return finite;
}

// The scale of the nearest part of the distances, which tells what the hits of a search are like: mean and spread of
// all rows do not.
DistanceScale ScaleOfNearest(std::vector<double> distances, double part) {
  const auto count = static_cast<size_t>(std::ceil(part * static_cast<double>(distances.size())));
  std::sort(distances.begin(), distances.end());
  return DistanceScale::Of(std::span(distances).first(std::min(count, distances.size())));
}

}  // namespace

DistanceScale DistanceScale::Of(std::span<const double> distances) {
  double sum = 0, size = 0, count = 0;
  for (const double d : distances) {
    if (!std::isfinite(d)) continue;
    sum += d;
    size += std::abs(d);
    ++count;
  }
  if (count == 0) return {};
  DistanceScale scale{sum / count};
  double squares = 0;
  for (const double d : distances) {
    if (std::isfinite(d)) squares += (d - scale.mean) * (d - scale.mean);
  }
  const double deviation = std::sqrt(squares / count);
  if (!IsUsable(deviation, size / count)) return scale;
  scale.deviation = deviation;
  scale.known = count >= static_cast<double>(kRowsMin);
  return scale;
}

DistanceFusion DistanceFusion::Make(std::span<const double> older, std::span<const double> newer, double older_weight) {
  LC_DCHECK(older_weight >= 0 && older_weight <= 1);
  const auto [of_older, of_newer] = FinitePairs(older, newer);
  const DistanceScale from = DistanceScale::Of(of_older), to = DistanceScale::Of(of_newer);
  double squares = 0;
  for (size_t i = 0; i < of_older.size(); ++i) {
    const double z = older_weight * (of_older[i] - from.mean) / from.deviation +
                     (1 - older_weight) * (of_newer[i] - to.mean) / to.deviation;
    squares += z * z;
  }
  // The mean of two standardised distances that do not agree lies nearer to 0 than either.
  const double deviation = std::sqrt(squares / static_cast<double>(std::max<size_t>(of_older.size(), 1)));
  const double spread = IsUsable(deviation, 1) ? deviation : 1;
  DistanceFusion fusion;
  fusion.older_slope = older_weight * to.deviation / (from.deviation * spread);
  fusion.newer_slope = (1 - older_weight) / spread;
  fusion.offset = to.mean - fusion.older_slope * from.mean - fusion.newer_slope * to.mean;
  return fusion;
}

DistanceFusion DistanceFusion::MakeConditioned(std::span<const double> newer, double newer_self, double older_weight) {
  LC_DCHECK(older_weight >= 0 && older_weight < 1);
  const double error = std::max(0.0, std::isfinite(newer_self) ? newer_self : DistanceScale::Of(newer).mean);
  DistanceFusion fusion;
  fusion.older_slope = older_weight / (1 - older_weight) * error;
  fusion.offset = -fusion.older_slope;
  return fusion;
}

DistanceFusion DistanceFusion::OnScaleOf(std::span<const double> own, std::span<const double> older,
                                         std::span<const double> newer) const {
  LC_DCHECK(older.size() == newer.size());
  std::vector<double> fused(older.size());
  for (size_t i = 0; i < fused.size(); ++i) fused[i] = Of(older[i], newer[i]);
  // The same part of both, so that rows of each generation will do where few items have both.
  constexpr double kPart = 0.2;
  const std::vector<double> of_fused = FiniteOf(fused), of_own = FiniteOf(own);
  const double rows = static_cast<double>(std::min(of_fused.size(), of_own.size()));
  const double part = std::max(kPart, std::min(1.0, DistanceScale::kRowsMin / std::max(rows, 1.0)));
  DistanceScale from = ScaleOfNearest(of_fused, part), to = ScaleOfNearest(of_own, part);
  if (!from.known || !to.known) {  // Copies of one row may be a fifth of all.
    from = DistanceScale::Of(of_fused);
    to = DistanceScale::Of(of_own);
  }
  if (!from.known || !to.known) return *this;
  const double factor = to.deviation / from.deviation;
  return {to.mean + factor * (offset - from.mean), factor * older_slope, factor * newer_slope};
}

}  // namespace lightcone
