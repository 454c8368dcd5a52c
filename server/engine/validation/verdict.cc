#include "server/engine/validation/verdict.h"

#include <algorithm>
#include <iterator>
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

// The gains of a mixture, less what its items hide of the whole gallery's loss, measure by measure. A backfill embeds
// the items first that the old model finds worst, so a way gains more on the common items than on those that are left.
ShareGains GainsInGallery(const WayReport& way, const ShareGains& mixture) {
  LC_DCHECK(!way.by_share.empty() && way.by_share.front().share == 0);
  LC_DCHECK(mixture.measure_gain.has_value() == way.measure_gain.has_value());
  const ShareGains& front = way.by_share.front();
  ShareGains charged = mixture;
  const auto charge = [&](const Estimate& of_common, const Estimate& of_gallery, Estimate* gain) {
    const double hidden = (1 - mixture.share) * std::max(0.0, of_common.value - of_gallery.value);
    for (double* const value : {&gain->value, &gain->low, &gain->high}) *value -= hidden;
  };
  charge(front.cmc1_gain, way.cmc1_gain, &charged.cmc1_gain);
  charge(front.map_gain, way.map_gain, &charged.map_gain);
  if (way.measure_gain && front.measure_gain && charged.measure_gain) {
    charge(*front.measure_gain, *way.measure_gain, &*charged.measure_gain);
  }
  return charged;
}

// The first measured share above 0 from which on the way passes.
std::optional<double> FirstPassingShare(double tolerance, const PairReport& pair, const WayReport& way) {
  if (!way.in_reach || way.by_share.empty() || way.map_gain.samples == 0) return std::nullopt;
  // An adapter does better on the pairs that it was fitted from than elsewhere.
  if (way.way != AdapterMode::kNone && pair.common_fitted) return std::nullopt;
  // Nobody knows what the probes lose that have nothing to find among the common items: perhaps all.
  const auto probes = static_cast<double>(way.map_gain.samples);
  const auto measured = static_cast<double>(way.by_share.front().map_gain.samples);
  if (measured < (1 - tolerance) * probes - kGainRounding) return std::nullopt;
  std::optional<double> first;
  for (size_t i = way.by_share.size(); i-- > 0;) {
    const ShareGains gains = GainsInGallery(way, way.by_share[i]);
    if (gains.share <= 0 || gains.dips || !IsNoWorse(tolerance, gains)) break;
    first = gains.share;
  }
  return first;
}

// The best way that passes in the gallery as it is embedded; of a pair that does not pass with nothing embedded anew.
const WayReport* BestByShare(double tolerance, const GateMeasure& measure, double embedded_share, PairReport* pair) {
  const WayReport* best = nullptr;
  double best_from = 0;
  for (const WayReport& way : pair->ways) {
    const bool judged = way.in_reach && !way.by_share.empty() && way.map_gain.samples > 0;
    if (judged) pair->judged_share = embedded_share;
    const std::optional<double> first = FirstPassingShare(tolerance, *pair, way);
    if (!first) continue;
    pair->passes_from_share = std::min(*first, pair->passes_from_share.value_or(*first));
    if (*first > embedded_share) continue;
    if (best != nullptr && FigureOf(measure, way.figures) <= FigureOf(measure, best->figures)) continue;
    best = &way;
    best_from = *first;
  }
  if (best != nullptr) pair->passes_from_share = best_from;  // The way that serves must pass, whatever others do.
  return best;
}

// The least that a way that passed gains in the measure by which it misses probes: at the share at which it passed.
double LeastGainOfPassed(const WayReport& way, double judged_share) {
  if (judged_share <= 0) return way.measure_gain ? way.measure_gain->low : way.cmc1_gain.low;
  // The own share has no entry where the one below it is the same mixture.
  const auto above = std::find_if(way.by_share.begin(), way.by_share.end(),
                                  [&](const ShareGains& gains) { return gains.share > judged_share; });
  LC_DCHECK(above != way.by_share.begin());
  const ShareGains gains = GainsInGallery(way, *std::prev(above));
  return gains.measure_gain ? gains.measure_gain->low : gains.cmc1_gain.low;
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
  const double low = LeastGainOfPassed(*best, pair->judged_share);
  pair->every_item = missed > 0 && std::max(missed, missed - low) > tolerance + kGainRounding;
}

}  // namespace lightcone::server
