#include "server/engine/filter/geo.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/dcheck.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEdgeSlack = 1e-9;  // degrees that the edges of a rectangle are rounded by, and more
// Metres that a distance may be wrong by: near the antipodes the haversine formula keeps half of the digits alone.
constexpr double kDistanceSlack = 1e-3, kFarSlack = 2;
constexpr double kFar = 0.9 * std::numbers::pi * kEarthRadius;

double Radians(double degrees) { return degrees * std::numbers::pi / 180; }

GeoRect Widened(const GeoRect& rect) {
  return {rect.west - kEdgeSlack, rect.south - kEdgeSlack, rect.east + kEdgeSlack, rect.north + kEdgeSlack};
}

// Metres from a point to the nearest one of a meridian's arc.
double DistanceToMeridian(const GeoPoint& point, double lon, double south, double north) {
  double nearest = std::min(GeoDistance(point, {lon, south}), GeoDistance(point, {lon, north}));
  // The point's foot on the meridian's whole circle: the cosine of the distance is that of the angle to it, scaled.
  const double turn = Radians(lon - point.lon), lat = Radians(point.lat);
  const double foot = std::atan2(std::sin(lat), std::cos(lat) * std::cos(turn)) * 180 / std::numbers::pi;
  if (foot > south && foot < north) nearest = std::min(nearest, GeoDistance(point, {lon, foot}));
  return nearest;
}

// Metres from a point to the nearest one of a rectangle. REQUIRES: the rectangle's corners are places.
double DistanceTo(const GeoPoint& point, const GeoRect& rect) {
  if (point.lon >= rect.west && point.lon <= rect.east) {
    return GeoDistance(point, {point.lon, std::clamp(point.lat, rect.south, rect.north)});
  }
  return std::min(DistanceToMeridian(point, rect.west, rect.south, rect.north),
                  DistanceToMeridian(point, rect.east, rect.south, rect.north));
}

double SlackOf(double distance) { return distance > kFar ? kFarSlack : kDistanceSlack; }

// The same for what is told by the distance to the antipode: where that is near, that distance is far and imprecise.
double SlackOfFarthest(double distance) {
  return SlackOf(distance) + std::min(kFarSlack, 0.1 / std::max(distance, 0.05));
}

bool Holds(const GeoRect& rect, const GeoPoint& point) {
  return point.lon >= rect.west && point.lon <= rect.east && point.lat >= rect.south && point.lat <= rect.north;
}

// Above 0 where three points turn left, 0 where they lie in a line. Where doubles cannot tell, as the products are
// close or too small, longer numbers are asked, which keep eleven bits more on most machines.
double Turn(const GeoPoint& a, const GeoPoint& b, const GeoPoint& c) {
  constexpr double kError = 4e-16;  // share of the products' sizes, or less
  const double left = (b.lon - a.lon) * (c.lat - a.lat), right = (b.lat - a.lat) * (c.lon - a.lon);
  const double turn = left - right;
  if (std::abs(turn) > kError * (std::abs(left) + std::abs(right)) + std::numeric_limits<double>::min()) return turn;
  const long double ax = a.lon, ay = a.lat;
  const long double longer = (b.lon - ax) * (c.lat - ay) - (b.lat - ay) * (c.lon - ax);
  return longer > 0 ? 1 : longer < 0 ? -1 : 0;  // its sign alone, as a double would round it to 0
}

constexpr size_t kBandsMax = 256, kPointsPerBand = 4;

// Rises with the latitude. Beside a flat ring, a far latitude's place is beyond what an integer holds.
size_t BandOf(const GeoRing& ring, double lat) {
  const size_t bands = ring.band_begins.size() - 1;
  const double height = ring.bounds.north - ring.bounds.south;
  const double place = height > 0 ? (lat - ring.bounds.south) / height * static_cast<double>(bands) : 0;
  if (place <= 0) return 0;
  return place >= static_cast<double>(bands) ? bands - 1 : static_cast<size_t>(place);
}

enum class RingSide { kOutside, kEdge, kInside };

// By the edges that a line from the point to the east crosses (Shimrat 1962).
RingSide SideOf(const GeoPoint& point, const GeoRing& ring) {
  if (!Holds(ring.bounds, point)) return RingSide::kOutside;
  bool inside = false;
  const size_t band = BandOf(ring, point.lat);
  for (uint32_t e = ring.band_begins[band]; e < ring.band_begins[band + 1]; ++e) {
    const GeoPoint &a = ring.points[ring.band_edges[e]], &b = ring.points[ring.band_edges[e] + 1];
    if (std::max(a.lat, b.lat) < point.lat || std::min(a.lat, b.lat) > point.lat) continue;
    const double turn = Turn(a, b, point);
    const bool between = point.lon >= std::min(a.lon, b.lon) && point.lon <= std::max(a.lon, b.lon);
    if (turn == 0 && between) return RingSide::kEdge;
    const bool up = a.lat <= point.lat && b.lat > point.lat, down = b.lat <= point.lat && a.lat > point.lat;
    if ((up && turn > 0) || (down && turn < 0)) inside = !inside;
  }
  return inside ? RingSide::kInside : RingSide::kOutside;
}

// Whether a segment has a point in a rectangle: else the line between them is one of the rectangle's sides or the
// segment's own (separating axes).
bool Touches(const GeoPoint& a, const GeoPoint& b, const GeoRect& rect) {
  if (std::max(a.lon, b.lon) < rect.west || std::min(a.lon, b.lon) > rect.east) return false;
  if (std::max(a.lat, b.lat) < rect.south || std::min(a.lat, b.lat) > rect.north) return false;
  int left = 0, right = 0;
  for (const GeoPoint& corner : {GeoPoint{rect.west, rect.south}, GeoPoint{rect.east, rect.south},
                                 GeoPoint{rect.east, rect.north}, GeoPoint{rect.west, rect.north}}) {
    const double turn = Turn(a, b, corner);
    left += turn >= 0;
    right += turn <= 0;
  }
  return left > 0 && right > 0;
}

// Whether an edge of a ring has a point in a rectangle.
bool EdgeTouches(const GeoRing& ring, const GeoRect& rect) {
  const GeoRect& bounds = ring.bounds;
  if (bounds.west > rect.east || bounds.east < rect.west || bounds.south > rect.north || bounds.north < rect.south) {
    return false;
  }
  const uint32_t begin = ring.band_begins[BandOf(ring, rect.south)];
  const uint32_t end = ring.band_begins[BandOf(ring, rect.north) + 1];
  // A long edge is in many bands.
  const bool by_bands = end - begin < ring.points.size();
  for (uint32_t i = 0; i < (by_bands ? end - begin : ring.points.size() - 1); ++i) {
    const uint32_t edge = by_bands ? ring.band_edges[begin + i] : i;
    if (Touches(ring.points[edge], ring.points[edge + 1], rect)) return true;
  }
  return false;
}

}  // namespace

bool IsPlace(const GeoPoint& point) {
  return point.lon >= -180 && point.lon <= 180 && point.lat >= -90 && point.lat <= 90;  // false for NaN
}

std::optional<GeoPoint> PlaceIn(const nlohmann::json& value) {
  if (!value.is_object()) return std::nullopt;
  const auto lon = value.find("lon"), lat = value.find("lat");
  if (lon == value.end() || lat == value.end() || !lon->is_number() || !lat->is_number()) return std::nullopt;
  const GeoPoint place{lon->get<double>(), lat->get<double>()};
  return IsPlace(place) ? std::optional(place) : std::nullopt;
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

void Prepare(GeoRing* ring) {
  ring->bounds = {180, 90, -180, -90};
  for (const GeoPoint& point : ring->points) {
    ring->bounds.west = std::min(ring->bounds.west, point.lon);
    ring->bounds.south = std::min(ring->bounds.south, point.lat);
    ring->bounds.east = std::max(ring->bounds.east, point.lon);
    ring->bounds.north = std::max(ring->bounds.north, point.lat);
  }
  const size_t bands = std::clamp<size_t>(ring->points.size() / kPointsPerBand, 1, kBandsMax);
  ring->band_begins.assign(bands + 1, 0);
  const auto visit = [ring](const auto& of_edge) {
    for (size_t i = 0; i + 1 < ring->points.size(); ++i) {
      const auto [low, high] = std::minmax(ring->points[i].lat, ring->points[i + 1].lat);
      for (size_t band = BandOf(*ring, low); band <= BandOf(*ring, high); ++band) of_edge(band, i);
    }
  };
  visit([ring](size_t band, size_t) { ++ring->band_begins[band + 1]; });
  std::partial_sum(ring->band_begins.begin(), ring->band_begins.end(), ring->band_begins.begin());
  ring->band_edges.resize(ring->band_begins.back());
  std::vector<uint32_t> next(ring->band_begins.begin(), ring->band_begins.end() - 1);
  visit([&](size_t band, size_t edge) { ring->band_edges[next[band]++] = static_cast<uint32_t>(edge); });
}

bool IsInPolygon(const GeoPoint& point, const std::vector<GeoRing>& rings) {
  LC_DCHECK(!rings.empty());
  if (SideOf(point, rings[0]) == RingSide::kOutside) return false;
  return std::none_of(rings.begin() + 1, rings.end(),
                      [&point](const GeoRing& hole) { return SideOf(point, hole) == RingSide::kInside; });
}

GeoOverlap OverlapWithCircle(const GeoRect& rect, const GeoPoint& center, double radius) {
  LC_DCHECK(IsPlace(center));
  const GeoRect wide{std::max(-180.0, rect.west - kEdgeSlack), std::max(-90.0, rect.south - kEdgeSlack),
                     std::min(180.0, rect.east + kEdgeSlack), std::min(90.0, rect.north + kEdgeSlack)};
  const double nearest = DistanceTo(center, wide);
  if (nearest - SlackOf(nearest) > radius) return GeoOverlap::kNone;
  // What is farthest from a place is nearest to its antipode.
  const GeoPoint antipode{center.lon > 0 ? center.lon - 180 : center.lon + 180, -center.lat};
  const double farthest = std::numbers::pi * kEarthRadius - DistanceTo(antipode, wide);
  return farthest + SlackOfFarthest(farthest) <= radius ? GeoOverlap::kAll : GeoOverlap::kPart;
}

GeoOverlap OverlapWithBox(const GeoRect& rect, const GeoPoint& top_left, const GeoPoint& bottom_right) {
  LC_DCHECK(IsPlace(top_left) && IsPlace(bottom_right));
  const GeoRect wide = Widened(rect);
  // No place lies beyond the ends of the map, so that a box that reaches one has no edge there.
  const double west = top_left.lon <= -180 ? -kInfinity : top_left.lon;
  const double east = bottom_right.lon >= 180 ? kInfinity : bottom_right.lon;
  const double south = bottom_right.lat <= -90 ? -kInfinity : bottom_right.lat;
  const double north = top_left.lat >= 90 ? kInfinity : top_left.lat;
  if (wide.north < south || wide.south > north) return GeoOverlap::kNone;
  const bool crosses = top_left.lon > bottom_right.lon;
  const bool no_column = crosses ? wide.east < west && wide.west > east : wide.east < west || wide.west > east;
  if (no_column) return GeoOverlap::kNone;
  const bool all_columns = crosses ? wide.west >= west || wide.east <= east : wide.west >= west && wide.east <= east;
  return all_columns && wide.south >= south && wide.north <= north ? GeoOverlap::kAll : GeoOverlap::kPart;
}

GeoOverlap OverlapWithPolygon(const GeoRect& rect, const std::vector<GeoRing>& rings) {
  LC_DCHECK(!rings.empty());
  const GeoRect wide = Widened(rect);
  if (std::any_of(rings.begin(), rings.end(), [&wide](const GeoRing& ring) { return EdgeTouches(ring, wide); })) {
    return GeoOverlap::kPart;
  }
  // No edge divides the rectangle, so that one of its places tells of all.
  const GeoPoint middle{(rect.west + rect.east) / 2, (rect.south + rect.north) / 2};
  return IsInPolygon(middle, rings) ? GeoOverlap::kAll : GeoOverlap::kNone;
}

}  // namespace lightcone::server
