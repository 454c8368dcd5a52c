#include "stats/relevance_curve.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr double kCellMin = 50;  // fewest distances of a cell: its chance has a standard error of at most 0.07
constexpr size_t kSpreadQuantile = RelevanceCurve::kQuantiles / 2;  // a quarter of the relevant items is within it

struct Cell {
  double count = 0, relevant = 0, distance_sum = 0;

  double distance() const { return distance_sum / count; }
  // Half an item of each kind on top, so that few distances never make a certainty (Krichevsky & Trofimov 1981).
  double chance() const { return (relevant + 0.5) / (count + 1); }
  void Add(const Cell& other) {
    count += other.count;
    relevant += other.relevant;
    distance_sum += other.distance_sum;
  }
};

// What was counted, by ascending distance.
std::vector<Cell> CellsOf(const DistanceCounts& counts) {
  std::vector<Cell> cells;
  cells.reserve(counts.bins().size());
  for (const auto& [bits, kinds] : counts.bins()) {
    Cell& cell = cells.emplace_back();
    for (const DistanceCounts::Sums& sums : kinds) {
      cell.count += static_cast<double>(sums.count);
      cell.distance_sum += sums.distance;
    }
    cell.relevant = static_cast<double>(kinds[1].count);
  }
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.distance() < b.distance(); });
  return cells;
}

// Pools neighbours to cells of about equal size, then those whose chance would rise with the distance.
std::vector<RelevanceCurve::Point> Isotonic(const std::vector<Cell>& cells) {
  double total = 0;
  for (const Cell& cell : cells) total += cell.count;
  const double size = std::max(kCellMin, total / static_cast<double>(RelevanceCurve::kPointsMax));
  std::vector<Cell> pooled;
  bool open = false;
  for (const Cell& cell : cells) {
    if (!open) pooled.emplace_back();
    pooled.back().Add(cell);
    open = pooled.back().count < size;
  }
  // A remainder is too small for a cell of its own.
  if (open && pooled.size() > 1) {
    const Cell last = pooled.back();
    pooled.pop_back();
    pooled.back().Add(last);
  }
  std::vector<Cell> falling;
  for (Cell cell : pooled) {
    while (!falling.empty() && falling.back().chance() <= cell.chance()) {
      Cell before = falling.back();
      falling.pop_back();
      before.Add(cell);
      cell = before;
    }
    falling.push_back(cell);
  }
  std::vector<RelevanceCurve::Point> points;
  for (const Cell& cell : falling) points.push_back({cell.distance(), cell.chance()});
  return points;
}

std::vector<double> QuantilesOf(const std::vector<Cell>& cells, double total) {
  std::vector<double> quantiles;
  size_t at = 0;
  double within = cells[0].count;
  for (size_t i = 0; i < RelevanceCurve::kQuantiles; ++i) {
    const double root = static_cast<double>(i) / static_cast<double>(RelevanceCurve::kQuantiles - 1);
    while (within < root * root * total && at + 1 < cells.size()) within += cells[++at].count;
    quantiles.push_back(cells[at].distance());
  }
  return quantiles;
}

absl::Status CheckAscending(const char* field, double before, double value) {
  if (!(std::abs(value) <= RelevanceCurve::kDistanceMax)) {
    return InvalidField(field, StrCat(value), StrCat("at most ", RelevanceCurve::kDistanceMax, " from 0"));
  }
  if (!(value >= before)) return InvalidField(field, StrCat(value, " after ", before), "ascending");
  return absl::OkStatus();
}

}  // namespace

double RelevanceCurve::ChanceAt(double distance) const {
  LC_DCHECK(!points.empty());
  const auto above = std::upper_bound(points.begin(), points.end(), distance,
                                      [](double d, const Point& point) { return d < point.distance; });
  if (above == points.begin()) return points.front().chance;
  if (above == points.end()) return points.back().chance;
  const Point &a = *(above - 1), &b = *above;
  return a.chance + (b.chance - a.chance) * (distance - a.distance) / (b.distance - a.distance);
}

double RelevanceCurve::Translate(double distance, const RelevanceCurve& to) const {
  LC_DCHECK(quantiles.size() == kQuantiles && to.quantiles.size() == kQuantiles);
  if (distance < quantiles.front() || distance >= quantiles.back()) {
    const double from_spread = quantiles[kSpreadQuantile] - quantiles.front();
    const double to_spread = to.quantiles[kSpreadQuantile] - to.quantiles.front();
    // Equal distances may differ in their last bits.
    const auto spreads = [](double spread, double at) { return spread > 1e-9 * std::abs(at) && spread > 1e-30; };
    const bool both = spreads(from_spread, quantiles.front()) && spreads(to_spread, to.quantiles.front());
    const double slope = both ? to_spread / from_spread : 1;
    return distance < quantiles.front() ? to.quantiles.front() + slope * (distance - quantiles.front())
                                        : to.quantiles.back() + slope * (distance - quantiles.back());
  }
  const auto above = std::upper_bound(quantiles.begin(), quantiles.end(), distance);
  const auto i = static_cast<size_t>(above - quantiles.begin());
  const double part = (distance - quantiles[i - 1]) / (quantiles[i] - quantiles[i - 1]);
  return to.quantiles[i - 1] + part * (to.quantiles[i] - to.quantiles[i - 1]);
}

absl::Status RelevanceCurve::Validate() const {
  if (points.empty() || points.size() > kPointsMax) {
    return InvalidField("points", StrCat(points.size()), StrCat("1 .. ", kPointsMax));
  }
  if (quantiles.size() != kQuantiles) return InvalidField("quantiles", StrCat(quantiles.size()), StrCat(kQuantiles));
  for (size_t i = 0; i < points.size(); ++i) {
    LC_RETURN_IF_ERROR(CheckAscending("points", i == 0 ? -kDistanceMax : points[i - 1].distance, points[i].distance));
    if (i > 0 && points[i].distance == points[i - 1].distance) {
      return InvalidField("points", StrCat(points[i].distance, " twice"), "each distance once");
    }
    if (!(points[i].chance >= 0 && points[i].chance <= (i == 0 ? 1 : points[i - 1].chance))) {
      return InvalidField("points", StrCat("a chance of ", points[i].chance), "0 .. 1, never rising");
    }
  }
  for (size_t i = 0; i < kQuantiles; ++i) {
    LC_RETURN_IF_ERROR(CheckAscending("quantiles", i == 0 ? -kDistanceMax : quantiles[i - 1], quantiles[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<RelevanceCurve> LearnRelevance(const DistanceCounts& nearest, const DistanceCounts& relevant) {
  const std::vector<Cell> near = CellsOf(nearest), of_relevant = CellsOf(relevant);
  double found = 0, seen = 0;
  for (const Cell& cell : of_relevant) found += cell.count;
  for (const Cell& cell : near) seen += cell.count;
  if (found < RelevanceCurve::kRelevantMin) {
    return FailedPrecondition(
        StrCat(found, " relevant items were seen; ", RelevanceCurve::kRelevantMin, " are needed"));
  }
  if (seen < kCellMin) return FailedPrecondition(StrCat(seen, " nearest items were seen; ", kCellMin, " are needed"));
  RelevanceCurve curve{Isotonic(near), QuantilesOf(of_relevant, found)};
  const absl::Status valid = curve.Validate();
  if (!valid.ok()) return FailedPrecondition(MessageOf(valid));
  return curve;
}

}  // namespace lightcone
