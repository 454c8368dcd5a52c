#include "stats/distance_calibration.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr int kBitsLeft = 14;  // kept bits of a float64's 52 after the leading one
constexpr double kRidge = 1e-9;
constexpr int kSteps = 100, kHalvings = 40;
constexpr double kLossRounding = 1e-12;  // relative rounding error of a loss
constexpr double kConverged = 1e-7;      // size of the last step in log odds; the next would be about its square

struct Point {
  double x = 0, weight = 0;
  bool relevant = false;
};

// log(1 + exp(t)) and the logistic function, without overflow.
double Softplus(double t) { return t > 0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t)); }
double Logistic(double t) { return t > 0 ? 1 / (1 + std::exp(-t)) : std::exp(t) / (1 + std::exp(t)); }

// Points in ascending order, so that sums are reproducible.
std::vector<Point> PointsOf(const DistanceCounts& counts) {
  std::vector<Point> points;
  for (const auto& [bits, kinds] : counts.bins()) {
    for (const bool relevant : {false, true}) {
      const DistanceCounts::Sums& sums = kinds[relevant ? 1 : 0];
      const auto count = static_cast<double>(sums.count);
      if (sums.count > 0) points.push_back({sums.distance / count, count, relevant});
    }
  }
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.x != b.x ? a.x < b.x : a.relevant < b.relevant; });
  return points;
}

// Whether a distance separates the kinds, touching or not. REQUIRES: both kinds, in the order of PointsOf.
bool Separated(const std::vector<Point>& points) {
  LC_DCHECK(std::ranges::is_sorted(points, {}, &Point::x));
  for (const bool first : {false, true}) {
    double end = -std::numeric_limits<double>::infinity(), begin = std::numeric_limits<double>::infinity();
    for (const Point& p : points) {
      if (p.relevant == first) {
        end = std::max(end, p.x);
      } else {
        begin = std::min(begin, p.x);
      }
    }
    if (end <= begin) return true;
  }
  return false;
}

// The penalised negative log likelihood of log odds a + b x.
double Loss(const std::vector<Point>& points, double ridge, double a, double b) {
  double loss = ridge / 2 * b * b;
  for (const Point& p : points) loss += p.weight * Softplus(p.relevant ? -(a + b * p.x) : a + b * p.x);
  return loss;
}

// Newton's method with steps halved until the loss does not rise by more than rounding, which exceeds the gain near the
// end. REQUIRES: x of mean 0 and deviation 1, kinds that overlap.
absl::StatusOr<RelevanceFit> Newton(const std::vector<Point>& points, double total, double relevant) {
  const double ridge = kRidge * total;
  double a = std::log(relevant / (total - relevant)), b = 0;
  double loss = Loss(points, ridge, a, b);
  for (int step = 0; step < kSteps; ++step) {
    double ga = 0, gb = ridge * b, haa = 0, hab = 0, hbb = ridge;
    for (const Point& p : points) {
      const double chance = Logistic(a + b * p.x), off = p.weight * (chance - (p.relevant ? 1 : 0));
      const double curve = p.weight * chance * (1 - chance);
      ga += off;
      gb += off * p.x;
      haa += curve;
      hab += curve * p.x;
      hbb += curve * p.x * p.x;
    }
    const double determinant = haa * hbb - hab * hab;
    double da = -(hbb * ga - hab * gb) / determinant, db = -(haa * gb - hab * ga) / determinant;
    if (!std::isfinite(da) || !std::isfinite(db)) break;
    if (std::abs(da) + std::abs(db) < kConverged) return RelevanceFit{a + da, -(b + db)};
    const double most = loss * (1 + kLossRounding);
    double next = Loss(points, ridge, a + da, b + db);
    for (int halving = 0; !(next <= most) && halving < kHalvings; ++halving) {
      da /= 2;
      db /= 2;
      next = Loss(points, ridge, a + da, b + db);
    }
    if (!(next <= most)) break;
    a += da;
    b += db;
    loss = next;
  }
  return FailedPrecondition(StrCat("the logistic regression did not converge in ", kSteps, " steps"));
}

}  // namespace

absl::Status DistanceCalibration::Validate() const {
  if (!(slope >= kSlopeMin && slope <= kSlopeMax)) {
    return InvalidField("slope", StrCat(slope), StrCat(kSlopeMin, " .. ", kSlopeMax));
  }
  if (!(offset >= -kOffsetMax && offset <= kOffsetMax)) {
    return InvalidField("offset", StrCat(offset), StrCat(-kOffsetMax, " .. ", kOffsetMax));
  }
  return absl::OkStatus();
}

void DistanceCounts::Add(double distance, bool relevant) {
  if (!std::isfinite(distance)) {
    ++not_finite_;
    return;
  }
  Sums& sums = bins_[std::bit_cast<uint64_t>(distance) >> (52 - kBitsLeft)][relevant ? 1 : 0];
  ++sums.count;
  sums.distance += distance;
}

void DistanceCounts::Add(const DistanceCounts& other) {
  for (const auto& [bits, kinds] : other.bins_) {
    std::array<Sums, 2>& to = bins_[bits];
    for (size_t kind = 0; kind < 2; ++kind) {
      to[kind].count += kinds[kind].count;
      to[kind].distance += kinds[kind].distance;
    }
  }
  not_finite_ += other.not_finite_;
}

absl::StatusOr<RelevanceFit> FitRelevance(const DistanceCounts& counts) {
  if (counts.not_finite() > 0) return FailedPrecondition(StrCat(counts.not_finite(), " distances are not finite"));
  std::vector<Point> points = PointsOf(counts);
  double total = 0, relevant = 0, mean = 0, variance = 0;
  for (const Point& p : points) {
    total += p.weight;
    relevant += p.relevant ? p.weight : 0;
    mean += p.weight * p.x;
  }
  if (!(relevant > 0)) return FailedPrecondition("nothing is relevant");
  if (!(relevant < total)) return FailedPrecondition("everything is relevant");
  mean /= total;
  for (const Point& p : points) variance += p.weight * (p.x - mean) * (p.x - mean);
  const double deviation = std::sqrt(variance / total);
  if (!std::isfinite(deviation)) return FailedPrecondition("distances are too great to be fitted");
  // Means of equal distances may differ in their last bits.
  if (!(deviation > 1e-12 * std::abs(mean))) return FailedPrecondition("all distances are the same");
  if (Separated(points)) return FailedPrecondition("a distance separates what is relevant from all else");
  for (Point& p : points) p.x = (p.x - mean) / deviation;
  LC_ASSIGN_OR_RETURN(const RelevanceFit scaled, Newton(points, total, relevant));
  if (!(scaled.steepness > 0)) return FailedPrecondition("nearer items are not more often relevant");
  return RelevanceFit{scaled.intercept + scaled.steepness * mean / deviation, scaled.steepness / deviation};
}

void DistanceMoments::Add(double distance) {
  ++count;
  const double off = distance - mean;
  mean += off / static_cast<double>(count);
  squares += off * (distance - mean);
}

void DistanceMoments::Add(const DistanceMoments& other) {
  if (other.count == 0) return;
  const auto mine = static_cast<double>(count), others = static_cast<double>(other.count), both = mine + others;
  const double off = other.mean - mean;
  mean += off * others / both;
  squares += other.squares + off * off * mine * others / both;
  count += other.count;
}

double DistanceMoments::deviation() const { return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count)); }

absl::StatusOr<DistanceCalibration> MatchNearest(const DistanceMoments& from, const DistanceMoments& to) {
  for (const DistanceMoments* one : {&from, &to}) {
    const double deviation = one->deviation();
    if (!std::isfinite(deviation) || !std::isfinite(one->mean)) {
      return FailedPrecondition("the nearest distances are too great to be matched");
    }
    // Equal distances may differ in their last bits.
    if (!(deviation > 1e-12 * std::abs(one->mean))) return FailedPrecondition("all nearest distances are the same");
  }
  const double slope = to.deviation() / from.deviation();
  const DistanceCalibration map{to.mean - slope * from.mean, slope};
  const absl::Status valid = map.Validate();
  if (!valid.ok()) return FailedPrecondition(MessageOf(valid));
  return map;
}

absl::StatusOr<DistanceCalibration> Equate(const RelevanceFit& from, const RelevanceFit& to) {
  const DistanceCalibration map{(to.intercept - from.intercept) / to.steepness, from.steepness / to.steepness};
  const absl::Status valid = map.Validate();
  if (!valid.ok()) return FailedPrecondition(MessageOf(valid));
  return map;
}

}  // namespace lightcone
