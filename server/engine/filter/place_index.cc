#include "server/engine/filter/place_index.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/dcheck.h"

namespace lightcone::server {
namespace {

constexpr int kLevels = 31;             // bits of a longitude, and of a latitude
constexpr size_t kSplitsMax = 512;      // number of cells that a search splits
constexpr uint64_t kLookedAtOnce = 64;  // number of ids that is not worth a split

// A square of the grid of 2^level by 2^level. Its code is the first 2 level bits of all codes in it.
struct Cell {
  int64_t code = 0;
  int level = 0;

  int64_t first() const { return code << 2 * (kLevels - level); }
  int64_t last() const { return ((code + 1) << 2 * (kLevels - level)) - 1; }
};

uint32_t StepOf(double value, double least, double extent) {
  const double steps = (value - least) / extent * static_cast<double>(int64_t{1} << kLevels);
  return static_cast<uint32_t>(std::clamp(steps, 0.0, static_cast<double>((int64_t{1} << kLevels) - 1)));
}

int64_t CodeOf(const GeoPoint& place) {
  LC_DCHECK(IsPlace(place));
  const uint32_t east = StepOf(place.lon, -180, 360), north = StepOf(place.lat, -90, 180);
  uint64_t code = 0;
  for (int bit = kLevels - 1; bit >= 0; --bit) code = code << 2 | (east >> bit & 1) << 1 | (north >> bit & 1);
  return static_cast<int64_t>(code);
}

GeoRect RectOf(const Cell& cell) {
  uint32_t east = 0, north = 0;
  for (int bit = cell.level - 1; bit >= 0; --bit) {
    east = east << 1 | static_cast<uint32_t>(cell.code >> (2 * bit + 1) & 1);
    north = north << 1 | static_cast<uint32_t>(cell.code >> 2 * bit & 1);
  }
  const double cells = static_cast<double>(int64_t{1} << cell.level);
  const double width = 360 / cells, height = 180 / cells;
  return {-180 + width * east, -90 + height * north, -180 + width * (east + 1.0), -90 + height * (north + 1.0)};
}

}  // namespace

void PlaceIndex::Add(const GeoPoint& place, uint64_t id) { codes_.Add(CodeOf(place), id); }
void PlaceIndex::Remove(const GeoPoint& place, uint64_t id) { codes_.Remove(CodeOf(place), id); }

void PlaceIndex::Collect(absl::FunctionRef<GeoOverlap(const GeoRect&)> overlap, IdPieces* all,
                         std::vector<uint64_t>* part) const {
  std::deque<Cell> cells = {Cell{}};  // the largest first
  for (size_t splits = 0; !cells.empty();) {
    const Cell cell = cells.front();
    cells.pop_front();
    const int64_t first = cell.first(), last = cell.last();
    const auto below = [first](int64_t code) { return code < first; };
    const auto above = [last](int64_t code) { return code > last; };
    if (!codes_.Ends(below, above)) continue;
    const GeoOverlap meets = overlap(RectOf(cell));
    if (meets == GeoOverlap::kNone) continue;
    if (meets == GeoOverlap::kAll) {
      codes_.Collect(below, above, all);
    } else if (cell.level < kLevels && splits < kSplitsMax && codes_.Count(below, above) > kLookedAtOnce) {
      ++splits;
      for (int64_t quarter = 0; quarter < 4; ++quarter) cells.push_back({cell.code << 2 | quarter, cell.level + 1});
    } else {
      std::optional<int64_t> seen;  // Many ids may be at one place.
      GeoOverlap here = GeoOverlap::kNone;
      const auto visit = [&](int64_t code, uint64_t id) {
        if (code > last) return false;
        if (seen != code) here = overlap(RectOf({code, kLevels}));
        seen = code;
        if (here != GeoOverlap::kNone) (here == GeoOverlap::kAll ? all->ids : *part).push_back(id);
        return true;
      };
      codes_.Walk(/*descending=*/false, below, [](int64_t) { return false; }, 0, visit);
    }
  }
}

}  // namespace lightcone::server
