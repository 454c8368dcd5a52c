#include "server/engine/validation/verdict.h"

#include <algorithm>
#include <span>
#include <utility>

namespace lightcone::server {
namespace {

constexpr double kGainRounding = 1e-12;

// The least gain that the gate asks about, and the least bound of such a gain's interval.
std::pair<double, double> LeastGain(const WayReport& way) {
  if (way.measure_gain) return {way.measure_gain->value, way.measure_gain->low};
  return {std::min(way.cmc1_gain.value, way.map_gain.value), std::min(way.cmc1_gain.low, way.map_gain.low)};
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

void Decide(double tolerance, const GateMeasure& measure, PairReport* pair) {
  const auto [verdict, best] = BestOf(tolerance, measure, pair->ways);
  pair->verdict = verdict;
  DecideBoth(tolerance, measure, pair);
  if (best == nullptr) return;
  pair->chosen = best->way;
  // Missed probes come on top of the loss that the interval does not exclude: both share one tolerance.
  const double missed = best->way == AdapterMode::kItem ? best->missed.value_or(0) : 0;
  const double low = best->measure_gain ? best->measure_gain->low : best->cmc1_gain.low;
  pair->every_item = missed > 0 && std::max(missed, missed - low) > tolerance + kGainRounding;
}

}  // namespace lightcone::server
