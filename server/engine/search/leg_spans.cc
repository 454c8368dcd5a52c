#include "server/engine/search/leg_spans.h"

#include <map>

namespace lightcone::server {
namespace {

constexpr size_t kLegSpansMax = 32;  // other spans of the call need places, too

}  // namespace

void AddLegSpans(const SearchProfile& profile, int64_t began_ns, Trace* trace) {
  struct Sum {
    int64_t queries = 0, fused = 0, scored = 0, refined = 0, reranked = 0, adapted = 0;
  };
  std::map<uint32_t, Sum> generations;
  for (const LegProfile& leg : profile.legs) {
    Sum& sum = generations[leg.generation];
    ++sum.queries;
    sum.fused += leg.fused;
    sum.scored += leg.rows_scored;
    sum.refined += leg.rows_refined;
    sum.reranked += leg.rows_reranked;
    sum.adapted += leg.rows_adapted;
  }
  while (generations.size() > kLegSpansMax) generations.erase(generations.begin());  // Newer ones tell more.
  const int64_t now = SteadyNanos();
  for (const auto& [generation, sum] : generations) {
    const size_t span = trace->Add("leg", Trace::kRoot, began_ns, now);
    trace->Set(span, "generation", int64_t{generation});
    trace->Set(span, "queries", sum.queries);
    trace->Set(span, "queries_fused", sum.fused);
    trace->Set(span, "rows_scored", sum.scored);
    trace->Set(span, "rows_refined", sum.refined);
    trace->Set(span, "rows_reranked", sum.reranked);
    trace->Set(span, "rows_adapted", sum.adapted);
  }
}

}  // namespace lightcone::server
