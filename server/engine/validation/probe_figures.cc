#include "server/engine/validation/probe_figures.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/dcheck.h"
#include "stats/bootstrap.h"
#include "stats/metrics.h"

namespace lightcone::server {
namespace {

using Values = ProbeValues;

// Over the probes that both measured.
Estimate GainOf(const Values& now, const Values& before) {
  std::vector<double> gains;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] && before[i]) gains.push_back(*now[i] - *before[i]);
  }
  return BootstrapMean(gains, -1, 1);
}

// The quotient of two means over the same probes, with its interval. PCom and PUp are such quotients.
ProbeQuotient ShareOf(const std::vector<double>& gained, const std::vector<double>& possible) {
  const double above = std::accumulate(gained.begin(), gained.end(), 0.0);
  const double below = std::accumulate(possible.begin(), possible.end(), 0.0);
  return {PCom(above, 0, below), BootstrapQuotient(gained, possible, -1, 1)};
}

}  // namespace

Estimate MeanOf(const Values& values) {
  std::vector<double> measured;
  for (const auto& v : values) {
    if (v) measured.push_back(*v);
  }
  return BootstrapMean(measured, 0, 1);
}

RankingFigures FiguresOf(const ProbeMeasures& m) {
  RankingFigures figures;
  for (size_t i = 0; i < figures.all().size(); ++i) *figures.all()[i] = MeanOf(*m.all()[i]);
  return figures;
}

ProbeQuotient PComOf(const Values& cross, const Values& old_self, const Values& base_self) {
  std::vector<double> gained, possible;
  for (size_t i = 0; i < cross.size(); ++i) {
    if (!cross[i] || !old_self[i] || !base_self[i]) continue;
    gained.push_back(*cross[i] - *old_self[i]);
    possible.push_back(*base_self[i] - *old_self[i]);
  }
  return ShareOf(gained, possible);
}

ProbeQuotient PUpOf(const Values& new_self, const Values& base_self) {
  std::vector<double> gained, base;
  for (size_t i = 0; i < new_self.size(); ++i) {
    if (!new_self[i] || !base_self[i]) continue;
    gained.push_back(*new_self[i] - *base_self[i]);
    base.push_back(*base_self[i]);
  }
  return ShareOf(gained, base);
}

ProbeMeasures WithFailed(ProbeMeasures measures, const RankingWay& way, const ProbeMeasures& has) {
  for (const size_t p : way.failed) {
    if (!has.ap[p]) continue;
    for (Values* const values : measures.all()) (*values)[p] = 0;
  }
  return measures;
}

void FillGains(const GateMeasure& measure, const ProbeMeasures& now, const ProbeMeasures& before, WayReport* way) {
  way->cmc1_gain = GainOf(now.cmc1, before.cmc1);
  way->map_gain = GainOf(now.ap, before.ap);
  if (measure.named()) way->measure_gain = GainOf(now.By(measure), before.By(measure));
}

absl::Status FillShareGains(const GateMeasure& measure, std::span<const std::vector<QueryRanking>> ranks,
                            std::span<const double> shares, const CommonItems::Leg& older,
                            const CommonItems::Leg& newer, const ProbeMeasures& old_self, double old_map,
                            const RankingRun& run, WayReport* way) {
  LC_DCHECK(ranks.size() == shares.size());
  std::vector<MixturePoint> points = PointsOf(ranks, shares);
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return shares[a] < shares[b]; });
  for (const size_t s : order) {
    if (run.cancelled()) return absl::CancelledError("cancelled while it judged mixtures");
    ProbeMeasures now = MeasuresOf(ranks[s]);
    if (shares[s] < 1) now = WithFailed(std::move(now), *older.way, old_self);
    if (shares[s] > 0) now = WithFailed(std::move(now), *newer.way, old_self);
    WayReport gains;
    FillGains(measure, now, old_self, &gains);
    way->by_share.push_back({.share = shares[s],
                             .cmc1_gain = gains.cmc1_gain,
                             .map_gain = gains.map_gain,
                             .measure_gain = gains.measure_gain,
                             .dips = false});
  }
  std::sort(points.begin(), points.end(),
            [](const MixturePoint& a, const MixturePoint& b) { return a.share < b.share; });
  for (size_t i = 0; i < points.size(); ++i) way->by_share[i].dips = Dips(std::span(points).subspan(i), old_map);
  return absl::OkStatus();
}

void FillOwnGains(const GateMeasure& measure, const ProbeMeasures& now, const ProbeMeasures& before, PairReport* pair) {
  WayReport own;
  FillGains(measure, now, before, &own);
  pair->own_cmc1_gain = own.cmc1_gain;
  pair->own_map_gain = own.map_gain;
  pair->own_measure_gain = own.measure_gain;
}

}  // namespace lightcone::server
