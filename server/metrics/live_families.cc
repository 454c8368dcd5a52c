// The families of live recall.
#include "base/strings.h"
#include "server/metrics/families.h"

namespace lightcone::server {
namespace {

void AddSpread(const std::string& collection, const LiveSpread& spread, FamilyList* out) {
  const FamilyList::Labels labels = {{"collection", collection},
                                     {"query_generation", StrCat(spread.query_generation)},
                                     {"item_generation", StrCat(spread.item_generation)}};
  std::vector<std::pair<double, double>> quantiles;
  for (size_t i = 0; i < spread.quantiles.size(); ++i) {
    quantiles.emplace_back(LiveSpread::kQuantiles[i], spread.quantiles[i]);
  }
  const bool distance = spread.quantity == "distance";
  out->Summary(distance ? "lightcone_live_hit_distance" : "lightcone_live_hit_uncertainty",
               distance ? "Distance of the hits of sampled searches." : "Uncertainty of the hits of sampled searches.",
               spread.count, spread.sum, quantiles, labels);
  if (!spread.drift) return;
  FamilyList::Labels with_quantity = labels;
  with_quantity.emplace_back("quantity", spread.quantity);
  out->Gauge("lightcone_live_drift",
             "Largest gap (0 to 1) between the distribution of these hits and that of the query generation's own hits. "
             "For its own hits, the comparison is with the generation that served before.",
             *spread.drift, with_quantity);
}

}  // namespace

void AddLiveFamilies(const std::string& collection, const LiveRecallStatus& status, FamilyList* out) {
  const FamilyList::Labels whole = {{"collection", collection}};
  out->Counter("lightcone_live_recall_samples_total", "Searches that were repeated exactly.", status.samples, whole);
  out->Counter("lightcone_live_recall_failures_total", "Searches whose repetition failed.", status.failures, whole);
  for (const LiveRecall& recall : status.recall) {
    const FamilyList::Labels labels = {{"collection", collection},
                                       {"query_generation", StrCat(recall.query_generation)},
                                       {"item_generation", StrCat(recall.item_generation)},
                                       {"segment", recall.segment},
                                       {"filter", recall.filter}};
    out->Counter("lightcone_live_recall_expected_total", "Hits that exact search found for sampled searches.",
                 recall.expected, labels);
    out->Counter("lightcone_live_recall_found_total", "Expected hits that the sampled searches had found.",
                 recall.found, labels);
    if (recall.recent_expected < 1) continue;  // Nothing was sampled lately.
    out->Gauge("lightcone_live_recall", "Found of expected hits of about the last hundred sampled searches.",
               recall.recent_found / recall.recent_expected, labels);
  }
  for (const LiveBreadth& breadth : status.breadths) {
    out->Gauge(
        "lightcone_live_breadth_factor",
        "Factor of the breadth of searches that name none, where sampled searches found too little for a minute.",
        breadth.factor,
        {{"collection", collection},
         {"query_generation", StrCat(breadth.query_generation)},
         {"item_generation", StrCat(breadth.item_generation)}});
  }
  for (const LiveSpread& spread : status.spreads) AddSpread(collection, spread, out);
}

void AddLiveSampling(const LiveSamplerStatus& status, FamilyList* out) {
  out->Counter("lightcone_live_recall_dropped_total", "Sampled searches dropped because too many were waiting.",
               status.dropped_total);
  out->Counter("lightcone_live_recall_cpu_seconds_total", "Processor time spent on repeating searches.",
               status.seconds_total);
}

}  // namespace lightcone::server
