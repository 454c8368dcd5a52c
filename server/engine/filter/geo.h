// Places on the earth as filters see them. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace lightcone::server {

// Degrees: a longitude of -180 .. 180 and a latitude of -90 .. 90.
struct GeoPoint {
  double lon = 0, lat = 0;
  friend bool operator==(const GeoPoint&, const GeoPoint&) = default;
};

inline constexpr double kEarthRadius = 6'371'008.8;  // metres

// Whether both are finite and in range.
bool IsPlace(const GeoPoint& point);

// The place that a value of a payload is: an object with numbers `lon` and `lat` in range.
std::optional<GeoPoint> PlaceIn(const nlohmann::json& value);

// Metres along the sphere (haversine formula). REQUIRES: both are places.
double GeoDistance(const GeoPoint& a, const GeoPoint& b);

// Whether a place lies in a box, its edges included. A box whose left edge is east of its right one crosses the line of
// 180 degrees. REQUIRES: all are places.
bool IsInBox(const GeoPoint& point, const GeoPoint& top_left, const GeoPoint& bottom_right);

// A part of the map between two meridians and two parallels, in degrees. It does not cross the line of 180 degrees.
struct GeoRect {
  double west = -180, south = -90, east = 180, north = 90;
};

// A closed line in the plane of longitude and latitude: its last point is its first. It does not cross the line of 180
// degrees.
struct GeoRing {
  std::vector<GeoPoint> points;
  // Set by Prepare: the least rectangle around the points, and the edges by bands of latitude, so that a place is held
  // against few of them. Those of band i are at band_begins[i] .. band_begins[i + 1]; edge j leads from point j on.
  GeoRect bounds = {};
  std::vector<uint32_t> band_begins = {}, band_edges = {};
};
void Prepare(GeoRing* ring);

// Whether a place lies in the first ring and in none of the others, which are holes. Corners and edges along meridians
// and parallels belong to the polygon; on other edges few places can be told, as doubles have a grid. Any even number
// of turns around a place is outside (even-odd rule). REQUIRES: Prepare was called for the rings; at least one ring.
bool IsInPolygon(const GeoPoint& point, const std::vector<GeoRing>& rings);

// How many places of a rectangle meet a condition. kPart also where rounding leaves it open.
enum class GeoOverlap { kNone, kPart, kAll };

// Places within `radius` metres of `center`, as GeoDistance tells. REQUIRES: `center` is a place.
GeoOverlap OverlapWithCircle(const GeoRect& rect, const GeoPoint& center, double radius);
// Places in a box, as IsInBox tells. REQUIRES: both corners are places.
GeoOverlap OverlapWithBox(const GeoRect& rect, const GeoPoint& top_left, const GeoPoint& bottom_right);
// Places in a polygon, as IsInPolygon tells, with the same requirements.
GeoOverlap OverlapWithPolygon(const GeoRect& rect, const std::vector<GeoRing>& rings);

}  // namespace lightcone::server
