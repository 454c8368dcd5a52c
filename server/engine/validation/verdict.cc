#include "server/engine/validation/verdict.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/dcheck.h"

namespace lightcone::server {
namespace {

constexpr double kGainRounding = 1e-12;

// The least gain that the gate asks about, and the least bound of such a gain's interval. Of a way, or of a share.
template <typename Gains>
std::pair<double, double> LeastGain(const Gains& of) {
  if (of.measure_gain) return {of.measure_gain->value, of.measure_gain->low};
  return {std::min(of.cmc1_gain.value, of.map_gain.value), std::min(of.cmc1_gain.low, of.map_gain.low)};
}

// Whether this is surely no worse than the older generation's own queries.
template <typename Gains>
bool IsNoWorse(double tolerance, const Gains& of) {
  const auto [gain, low] = LeastGain(of);
  return of.map_gain.samples > 0 && gain >= -kGainRounding && low >= -tolerance - kGainRounding;
}

// The first measured share above 0 from which on the way passes.
std::optional<double> FirstPassingShare(double tolerance, const WayReport& way) {
  if (!way.in_reach || way.by_share.empty()) return std::nullopt;
  // Mixtures are of fewer items than the gallery. Where these do not show its loss, they are too easy to tell anything.
  if (!IsNoWorse(tolerance, way) && IsNoWorse(tolerance, way.by_share.front())) return std::nullopt;
  std::optional<double> first;
  for (size_t i = way.by_share.size(); i-- > 0;) {
    const ShareGains& gains = way.by_share[i];
    if (gains.share <= 0 || gains.dips || !IsNoWorse(tolerance, gains)) break;
    first = gains.share;
  }
  return first;
}

// The best way that passes in the gallery as it is embedded; of a pair that does not pass with nothing embedded anew.
const WayReport* BestByShare(double tolerance, const GateMeasure& measure, double embedded_share, PairReport* pair) {
  const WayReport* best = nullptr;
  for (const WayReport& way : pair->ways) {
    if (way.in_reach && !way.by_share.empty()) pair->judged_share = embedded_share;
    const std::optional<double> first = FirstPassingShare(tolerance, way);
    if (!first) continue;
    pair->passes_from_share = std::min(*first, pair->passes_from_share.value_or(*first));
    if (*first > embedded_share) continue;
    if (best == nullptr || FigureOf(measure, way.figures) > FigureOf(measure, best->figures)) best = &way;
  }
  return best;
}

// The verdict by these ways, and the best that passes.
std::pair<Verdict, const WayReport*> BestOf(double tolerance, const GateMeasure& measure,
                                            std::span<const WayReport> ways) {
  const WayReport* best = nullptr;
  bool measured = false, better = false, sure = false;
  for (const WayReport& way : ways) {
    measured = measured || way.map_gain.samples > 0;
    if (!way.in_reach || way.map_gain.samples == 0) continue;
    // This is the standard criterion.
    const auto [gain, low] = LeastGain(way);
    if (gain < -kGainRounding) continue;
    better = true;
    if (low < -tolerance - kGainRounding) continue;
    sure = true;
    if (way.dips_in_force() || (best != nullptr && FigureOf(measure, way.figures) <= FigureOf(measure, best->figures)))
      continue;
    best = &way;
  }
  return {best != nullptr ? Verdict::kPassed
          : !measured     ? Verdict::kUnmeasured
          : !better       ? Verdict::kWorse
          : !sure         ? Verdict::kUncertain
                          : Verdict::kDips,
          best};
}

// Whether both queries pass, and beside which way searches rank by them: the best that passes, else the best.
void DecideBoth(double tolerance, const GateMeasure& measure, PairReport* pair) {
  const WayReport* best = BestOf(tolerance, measure, pair->both).second;
  pair->both_pass = best != nullptr;
  for (const WayReport& way : pair->both) {
    if (pair->both_pass || way.map_gain.samples == 0) continue;
    if (best == nullptr || FigureOf(measure, way.figures) > FigureOf(measure, best->figures)) best = &way;
  }
  if (best != nullptr) pair->both_beside = best->way;
}

}  // namespace

double FigureOf(const GateMeasure& measure, const RankingFigures& figures) {
  if (!measure.named()) return figures.map.value;
  double sum = 0;
  for (const auto& [of, weight] : measure.weights) sum += weight * figures.all()[static_cast<size_t>(of)]->value;
  return sum;
}

void Decide(double tolerance, const GateMeasure& measure, PairReport* pair, double embedded_share) {
  LC_DCHECK(embedded_share >= 0 && embedded_share <= 1);
  auto [verdict, best] = BestOf(tolerance, measure, pair->ways);
  pair->judged_share = 0;
  pair->passes_from_share.reset();
  if (best == nullptr) best = BestByShare(tolerance, measure, embedded_share, pair);
  pair->verdict = best == nullptr ? verdict : Verdict::kPassed;
  DecideBoth(tolerance, measure, pair);
  if (best == nullptr) return;
  pair->chosen = best->way;
  // Missed probes come on top of the loss that the interval does not exclude: both share one tolerance.
  const double missed = best->way == AdapterMode::kItem ? best->missed.value_or(0) : 0;
  const double low = best->measure_gain ? best->measure_gain->low : best->cmc1_gain.low;
  pair->every_item = missed > 0 && std::max(missed, missed - low) > tolerance + kGainRounding;
}

}  // namespace lightcone::server
