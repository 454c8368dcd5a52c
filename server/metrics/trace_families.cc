// Spans that were sent to a collector, and those that were not.
#include "server/metrics/families.h"

namespace lightcone::server {

void AddTraceFamilies(const TraceFigures& figures, FamilyList* out) {
  out->Counter("lightcone_trace_spans_exported_total", "Spans of calls that the collector took.",
               figures.exported_total);
  for (size_t i = 0; i < kSpanLossNames.size(); ++i) {
    out->Counter("lightcone_trace_spans_dropped_total",
                 "Spans of calls that no collector got: too many waited, it did not take them, or their call had too "
                 "many.",
                 figures.dropped_total[i], {{"reason", std::string(kSpanLossNames[i])}});
  }
}

}  // namespace lightcone::server
