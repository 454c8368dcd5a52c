#include "server/engine/filter/geo.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/dcheck.h"

namespace lightcone::server {
namespace {

double Radians(double degrees) { return degrees * std::numbers::pi / 180; }

}  // namespace

bool IsPlace(const GeoPoint& point) {
  return point.lon >= -180 && point.lon <= 180 && point.lat >= -90 && point.lat <= 90;  // false for NaN
}

double GeoDistance(const GeoPoint& a, const GeoPoint& b) {
  LC_DCHECK(IsPlace(a) && IsPlace(b));
  const double north = std::sin(Radians(b.lat - a.lat) / 2), east = std::sin(Radians(b.lon - a.lon) / 2);
  const double h = north * north + std::cos(Radians(a.lat)) * std::cos(Radians(b.lat)) * east * east;
  return 2 * kEarthRadius * std::asin(std::min(1.0, std::sqrt(h)));
}

bool IsInBox(const GeoPoint& point, const GeoPoint& top_left, const GeoPoint& bottom_right) {
  LC_DCHECK(IsPlace(point) && IsPlace(top_left) && IsPlace(bottom_right));
  if (point.lat > top_left.lat || point.lat < bottom_right.lat) return false;
  const bool east = point.lon >= top_left.lon, west = point.lon <= bottom_right.lon;
  return top_left.lon <= bottom_right.lon ? east && west : east || west;
}

}  // namespace lightcone::server
