// Figures over probes: means, gains and quotients with their intervals, for a validation's report. Threads: pure
// functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/validation/probe_mixture.h"
#include "server/engine/validation/probe_ranking.h"

namespace lightcone::server {

// The mean over the probes that were measured, each value in [0, 1].
Estimate MeanOf(const ProbeValues& values);
// The same of every measure.
RankingFigures FiguresOf(const ProbeMeasures& measures);

// A quotient of two means over the same probes, with its interval. stats/metrics.h defines P_com and P_up.
struct ProbeQuotient {
  std::optional<double> value;
  std::optional<Estimate> interval;
};
// Over the probes that all of the arguments measured.
ProbeQuotient PComOf(const ProbeValues& cross, const ProbeValues& old_self, const ProbeValues& base_self);
ProbeQuotient PUpOf(const ProbeValues& new_self, const ProbeValues& base_self);

// Sets the measures of failed queries to 0, where `has` shows that the gallery has something for the probe.
ProbeMeasures WithFailed(ProbeMeasures measures, const RankingWay& way, const ProbeMeasures& has);

// What a way gains over the older generation, over the probes that both measured.
void FillGains(const GateMeasure& measure, const ProbeMeasures& now, const ProbeMeasures& before, WayReport* way);

// Fills WayReport::by_share. `ranks`: those of a mixture of the two ways, by share and probe, as searches rank it;
// `old_self`: the older generation's own queries on the same items; `old_map`: as of Dips. CANCELLED. REQUIRES: ranks
// of each share.
absl::Status FillShareGains(const GateMeasure& measure, std::span<const std::vector<QueryRanking>> ranks,
                            std::span<const double> shares, const CommonItems::Leg& older,
                            const CommonItems::Leg& newer, const ProbeMeasures& old_self, double old_map,
                            const RankingRun& run, WayReport* way);

// What the new generation itself gains, by its own queries on its own embeddings of the common items.
void FillOwnGains(const GateMeasure& measure, const ProbeMeasures& now, const ProbeMeasures& before, PairReport* pair);

}  // namespace lightcone::server
