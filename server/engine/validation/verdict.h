// What the gate makes of measured gains. Threads: pure functions.
#pragma once

#include "server/engine/api/validation_types.h"

namespace lightcone::server {

// The figure by which ways are ordered, best last: mAP where the measure names nothing.
double FigureOf(const GateMeasure& measure, const RankingFigures& figures);

// Fills verdict and chosen from the gains of the ways and their mixed galleries, and both_pass and both_beside from
// those of both. stats/bootstrap.h defines intervals. A way is judged by its `measure_gain`, or by both other gains
// where it has none. What does not pass with nothing embedded anew is judged by WayReport::by_share, too: it passes if
// `embedded_share`, the share of the pair's items that the new generation has embedded, is no less than the share from
// which on a way passes. What the common items hide of the whole gallery's loss is charged to the mixtures for the
// share that is left. No share is named for an adapter that may be fitted from the common items, or where less than
// nine tenths of the probes have something to find among them. Fills judged_share and passes_from_share. REQUIRES:
// embedded_share is in [0, 1].
void Decide(double tolerance, const GateMeasure& measure, PairReport* pair, double embedded_share = 0);

}  // namespace lightcone::server
