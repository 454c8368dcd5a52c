// Any bytes as places of a rectangle, a box, a circle and the rings of a polygon: what the rectangle is told as a whole
// holds for places in it. JSON as a place of a payload.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/engine/filter/geo.h"

namespace {

using namespace lightcone::server;  // NOLINT: a program of one file

class Numbers {
 public:
  Numbers(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  // A number of -limit .. limit, of any exponent.
  double Take(double limit) {
    double value = 0;
    const size_t bytes = std::min(size_, sizeof(value));
    std::memcpy(&value, data_, bytes);
    data_ += bytes;
    size_ -= bytes;
    return std::isfinite(value) ? std::clamp(value, -limit, limit) : 0;
  }
  GeoPoint TakePlace() {
    const double lon = Take(180);
    return {lon, Take(90)};
  }
  size_t places_left() const { return size_ / (2 * sizeof(double)); }

 private:
  const uint8_t* data_;
  size_t size_;
};

void CheckOverlap(GeoOverlap overlap, bool lies) {
  if (overlap == GeoOverlap::kAll && !lies) std::abort();
  if (overlap == GeoOverlap::kNone && lies) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 14) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (const auto place = PlaceIn(json); place && !IsPlace(*place)) std::abort();
  Numbers numbers(data, size);
  GeoPoint a = numbers.TakePlace(), b = numbers.TakePlace();
  const GeoPoint top_left = numbers.TakePlace(), bottom_right = numbers.TakePlace(), center = numbers.TakePlace();
  const double radius = std::abs(numbers.Take(3e7));
  const GeoRect rect{std::min(a.lon, b.lon), std::min(a.lat, b.lat), std::max(a.lon, b.lon), std::max(a.lat, b.lat)};
  std::vector<GeoRing> rings(1);
  while (numbers.places_left() > 0) {
    rings.back().points.push_back(numbers.TakePlace());
    if (rings.back().points.size() == 40) rings.emplace_back();
  }
  for (GeoRing& ring : rings) {
    while (ring.points.size() < 3) ring.points.push_back({0, static_cast<double>(ring.points.size())});
    ring.points.push_back(ring.points.front());
    Prepare(&ring);
  }
  const GeoOverlap circle = OverlapWithCircle(rect, center, radius), box = OverlapWithBox(rect, top_left, bottom_right);
  const GeoOverlap polygon = OverlapWithPolygon(rect, rings);
  for (const GeoPoint& place :
       {GeoPoint{rect.west, rect.south}, GeoPoint{rect.east, rect.north}, GeoPoint{rect.west, rect.north}}) {
    const double metres = GeoDistance(place, center);
    if (!(metres >= 0 && metres <= 2.1e7)) std::abort();
    CheckOverlap(circle, metres <= radius);
    CheckOverlap(box, IsInBox(place, top_left, bottom_right));
    CheckOverlap(polygon, IsInPolygon(place, rings));
  }
  return 0;
}
