#include "server/engine/validation/probe_calibration.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "base/dcheck.h"
#include "base/mix.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

// Fewest probes of a half. A fit learns two numbers from it, and knows the other half's gain to about 0.02.
constexpr int64_t kHalfMin = 50;
constexpr double kRounding = 1e-12;
// Nearest items of a probe: a hundredth of those that it is measured on, and not so few that one of them counts much.
constexpr size_t kNearestMin = 10, kNearestParts = 100;

size_t HalfOf(size_t probe) { return Mixed(probe) & 1; }

// The gain of `value` probe by probe, in the mean over shares above 0 and below 1.
template <typename Value>
Estimate GainOf(std::span<const std::vector<QueryRanking>> now, std::span<const std::vector<QueryRanking>> before,
                std::span<const double> shares, Value value) {
  std::vector<double> gains;
  for (size_t p = 0; p < now[0].size(); ++p) {
    double sum = 0;
    int mixed = 0;
    for (size_t s = 0; s < shares.size(); ++s) {
      if (shares[s] <= 0 || shares[s] >= 1) continue;
      if (now[s][p].first == 0 || before[s][p].first == 0) continue;
      sum += value(now[s][p]) - value(before[s][p]);
      ++mixed;
    }
    if (mixed > 0) gains.push_back(sum / mixed);
  }
  return BootstrapMean(gains, -1, 1);
}

// Adds the smallest distances, so many of them at most.
void AddNearest(std::vector<double> distances, size_t count, DistanceMoments* to) {
  count = std::min(count, distances.size());
  std::partial_sort(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(count), distances.end());
  for (size_t i = 0; i < count; ++i) to->Add(distances[i]);
}

CalibrationReport None(std::string why) {
  CalibrationReport report;
  report.none_because = std::move(why);
  return report;
}

// A calibration that wins is better than one that does not, then one without a dip, then the greater gain.
std::tuple<bool, bool, double> MeritOf(const CalibrationReport& report) {
  return {report.wins, !report.dips, report.map_gain.value + report.cmc1_gain.value};
}

}  // namespace

void HalvedCounts::Add(size_t probe, const CommonItems::Distances& distances) {
  const auto counts = [&](size_t i) { return i != distances.own && std::isfinite(distances.older[i]); };
  bool any = false;
  for (size_t i = 0; i < distances.relevant.size() && !any; ++i) any = distances.relevant[i] != 0 && counts(i);
  if (!any) return;
  Half& half = halves_[HalfOf(probe)];
  ++half.probes;
  std::vector<double> older, newer;
  for (size_t i = 0; i < distances.relevant.size(); ++i) {
    if (!counts(i)) continue;
    half.older.Add(distances.older[i], distances.relevant[i] != 0);
    half.newer.Add(distances.newer[i], distances.relevant[i] != 0);
    older.push_back(distances.older[i]);
    newer.push_back(distances.newer[i]);
  }
  const size_t nearest = std::max(kNearestMin, older.size() / kNearestParts);
  AddNearest(std::move(older), nearest, &half.older_nearest);
  AddNearest(std::move(newer), nearest, &half.newer_nearest);
}

absl::StatusOr<DistanceCalibration> HalvedCounts::Fit(Kind kind, std::span<const size_t> halves) const {
  if (kind == Kind::kNearest) {
    DistanceMoments older, newer;
    for (const size_t half : halves) {
      older.Add(halves_[half].older_nearest);
      newer.Add(halves_[half].newer_nearest);
    }
    return MatchNearest(older, newer);
  }
  DistanceCounts older, newer;
  for (const size_t half : halves) {
    older.Add(halves_[half].older);
    newer.Add(halves_[half].newer);
  }
  const absl::StatusOr<RelevanceFit> from = FitRelevance(older), to = FitRelevance(newer);
  if (!from.ok()) return Annotate(from.status(), "distances to the older items");
  if (!to.ok()) return Annotate(to.status(), "distances to its own items");
  return Equate(*from, *to);
}

absl::StatusOr<CalibrationReport> MeasureCalibration(const CommonItems& common, CommonItems::Leg older,
                                                     const CommonItems::Leg& newer, const HalvedCounts& counts,
                                                     std::span<const std::vector<QueryRanking>> plain,
                                                     std::span<const double> shares,
                                                     std::span<const ProbeTarget> targets, double old_map,
                                                     const RankingRun& run,
                                                     std::vector<std::vector<QueryRanking>>* ranks) {
  LC_DCHECK(shares.size() >= kMixtureShares.size() && plain.size() == shares.size());
  LC_DCHECK(std::equal(kMixtureShares.begin(), kMixtureShares.end(), shares.begin()));
  if (std::min(counts.probes(0), counts.probes(1)) < kHalfMin) {
    return None(StrCat("of the halves of the probes ", counts.probes(0), " and ", counts.probes(1),
                       " have something to find among the common items; ", kHalfMin, " of each are needed"));
  }
  std::optional<CalibrationReport> best;
  std::string none_because;
  for (const auto kind : {HalvedCounts::Kind::kRelevance, HalvedCounts::Kind::kNearest}) {
    const size_t first[] = {0}, second[] = {1}, both[] = {0, 1};
    const auto all = counts.Fit(kind, both), of_first = counts.Fit(kind, first), of_second = counts.Fit(kind, second);
    absl::Status failed;
    for (const auto* fit : {&all, &of_first, &of_second}) failed.Update(fit->status());
    if (!failed.ok()) {
      if (none_because.empty()) none_because = MessageOf(failed);
      continue;
    }
    CalibrationReport report;
    report.map = *all;
    std::vector<DistanceCalibration> unseen(targets.size());
    for (size_t p = 0; p < unseen.size(); ++p) unseen[p] = HalfOf(p) == 0 ? *of_second : *of_first;
    older.calibrations = unseen;
    LC_ASSIGN_OR_RETURN(auto ranked, common.Rank(older, newer, shares, targets, run));
    report.mixture = PointsOf(ranked, kMixtureShares);
    report.dips = Dips(report.mixture, old_map);
    report.map_gain = GainOf(ranked, plain, kMixtureShares, [](const QueryRanking& r) { return r.ap; });
    report.cmc1_gain =
        GainOf(ranked, plain, kMixtureShares, [](const QueryRanking& r) { return r.first == 1 ? 1.0 : 0.0; });
    report.wins = report.map_gain.low > 0 && report.cmc1_gain.value >= -kRounding &&
                  (!report.dips || Dips(PointsOf(plain, kMixtureShares), old_map));
    if (best && MeritOf(report) <= MeritOf(*best)) continue;
    best = std::move(report);
    *ranks = std::move(ranked);
  }
  return best ? *std::move(best) : None(std::move(none_because));
}

}  // namespace lightcone::server
