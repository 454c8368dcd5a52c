// Figures over probes: means, gains and quotients with their intervals, for a validation's report. Threads: pure
// functions.
#pragma once

#include <optional>

#include "server/engine/api/validation_types.h"
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

// What the new generation itself gains, by its own queries on its own embeddings of the common items.
void FillOwnGains(const GateMeasure& measure, const ProbeMeasures& now, const ProbeMeasures& before, PairReport* pair);

}  // namespace lightcone::server
