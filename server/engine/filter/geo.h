// Places on the earth as filters see them. Threads: pure functions.
#pragma once

namespace lightcone::server {

// Degrees: a longitude of -180 .. 180 and a latitude of -90 .. 90.
struct GeoPoint {
  double lon = 0, lat = 0;
  friend bool operator==(const GeoPoint&, const GeoPoint&) = default;
};

inline constexpr double kEarthRadius = 6'371'008.8;  // metres

// Whether both are finite and in range.
bool IsPlace(const GeoPoint& point);

// Metres along the sphere (haversine formula). REQUIRES: both are places.
double GeoDistance(const GeoPoint& a, const GeoPoint& b);

// Whether a place lies in a box, its edges included. A box whose left edge is east of its right one crosses the line of
// 180 degrees. REQUIRES: all are places.
bool IsInBox(const GeoPoint& point, const GeoPoint& top_left, const GeoPoint& bottom_right);

}  // namespace lightcone::server
