// What a validation finds out: how well queries of a generation find the items of older ones, with all figures.
// Threads: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/api/gate_measure.h"
#include "server/engine/api/types.h"
#include "stats/bootstrap.h"
#include "stats/distance_calibration.h"
#include "stats/relevance_curve.h"

namespace lightcone::server {

// Means over probes. The last three have no samples in reports of older servers.
struct RankingFigures {
  Estimate cmc1 = {}, cmc5 = {}, map = {}, mrr = {}, ndcg10 = {}, recall10 = {};

  // All of them, in the order of kRankingMeasures.
  std::array<const Estimate*, 6> all() const { return {&cmc1, &cmc5, &map, &mrr, &ndcg10, &recall10}; }
  std::array<Estimate*, 6> all() { return {&cmc1, &cmc5, &map, &mrr, &ndcg10, &recall10}; }
};

// A gallery of which a share is embedded anew, in random order.
struct MixturePoint {
  double share = 0, cmc1 = 0, map = 0;
};

// What a gallery of which a share is embedded anew, in random order, gains over the older generation's own queries on
// the same items, probe by probe. The rest is reached as searches reach it: by a calibration that wins, if there is
// one.
struct ShareGains {
  double share = 0;
  Estimate cmc1_gain, map_gain;
  std::optional<Estimate> measure_gain;  // gain in the measure that the call names
  bool dips = false;                     // fall of the mixture from this share on, as of WayReport::dips
};

// A way's distances put on the scale of the new generation's own (stats/distance_calibration.h), and whether mixed
// galleries are ranked better so.
struct CalibrationReport {
  std::string none_because;  // reason why there is no calibration; empty: the rest is filled
  DistanceCalibration map;   // learnt from all probes
  // Over the plain distance, in the mean over the mixed shares; each half of the probes by a calibration learnt from
  // the other half, as the mixture is.
  Estimate cmc1_gain, map_gain;
  std::vector<MixturePoint> mixture;
  bool dips = false;
  // The interval of the gain in mAP is above 0, CMC@1 does not fall, and no dip comes in: of the chosen way, searches
  // rank by it.
  bool wins = false;
};

// What the older query counts for in a search that ranks by two generations' queries (stats/distance_fusion.h).
struct OlderShare {
  double weight = 0.25;  // where no validation chose another
  // By DistanceFusion::MakeConditioned and the query's likeness to rows; between cosine spaces alone.
  bool conditioned = false;

  bool operator==(const OlderShare&) const = default;
};

// One way from queries of the new generation to items of an older one.
struct WayReport {
  AdapterMode way = AdapterMode::kNone;  // kNone: plain distance; kQuery, kItem: by that adapter
  bool in_reach = true;                  // false: a plain distance between models that do not claim to be compatible
  RankingFigures figures;
  Estimate cmc1_gain, map_gain;                  // gains over the older generation's own queries, probe by probe
  std::optional<Estimate> measure_gain;          // the same in the measure that the call names
  std::vector<MixturePoint> mixture;             // points of the mixture; empty: too few items are embedded by both
  bool dips = false;                             // the mixture falls more than 0.01 in mAP below both its ends
  std::optional<CalibrationReport> calibration;  // nullopt: none was sought
  // By ascending share, from 0 to 1, with the gallery's own among them. Empty: as for the mixture, for ways of both
  // queries or out of reach, and in reports that were read from the store, which keeps the verdict by them alone.
  std::vector<ShareGains> by_share;
  // Of an item adapter whose candidates another way finds: the share of the probes that rank a relevant item among
  // their first five when every item is carried, and have none among the candidates. nullopt: no other way is open.
  std::optional<double> missed;
  // The older generation's own query beside `way`, with this share: distances are those of a DistanceFusion. The
  // figures of each half of the probes are by the share that the other half chose, the share itself is chosen by all.
  std::optional<OlderShare> older;
  // What its distances to the older items say (stats/relevance_curve.h). nullopt: too little was relevant to tell, or
  // the report is an older server's.
  std::optional<RelevanceCurve> relevance;

  bool calibrated() const { return calibration && calibration->wins; }
  // What a partly backfilled gallery would do as searches rank it.
  bool dips_in_force() const { return calibrated() ? calibration->dips : dips; }
};

enum class Verdict {
  kPassed,
  kWorse,       // no way finds the items as well as the older generation's own queries
  kUncertain,   // a way does, but its interval does not exclude a loss beyond the tolerance
  kDips,        // a way does, but a partly backfilled gallery would be worse than either
  kUnmeasured,  // No way leads there, or no probe has vectors by both.
};

// Queries of the validated generation on items of an older one.
struct PairReport {
  uint32_t item_generation = 0;
  uint64_t items = 0;  // embedded by it
  Verdict verdict = Verdict::kUnmeasured;
  // Share of the items embedded anew at which the verdict was found. 0: as if nothing were embedded anew, and where
  // `replaced`. What passes at 0 is judged no further.
  double judged_share = 0;
  // First measured share above 0 from which on a way passes at every measured one. nullopt: there is none, the common
  // items cannot tell, or a way passes at 0.
  std::optional<double> passes_from_share;
  AdapterMode chosen = AdapterMode::kNone;  // way that searches take from now on, after kPassed
  // Of kItem: searches carry every item, as the validation did, since the candidates of another way miss so many of the
  // probes that the gain in CMC@1 without them does not exclude a loss beyond the tolerance, or more of them than that.
  // Segments that are carried over need no candidates.
  bool every_item = false;
  // The new generation embedded every item: nothing of the older one is served. Its way is the new one's own queries on
  // the new one's own embeddings of what both embedded, and says nothing of how queries come to older items.
  bool replaced = false;
  RankingFigures old_self;                      // the older generation's own queries on the same items
  std::optional<RelevanceCurve> old_relevance;  // curve of their distances
  std::vector<WayReport> ways;
  // The older generation's own queries beside each way that is in reach, for searches that carry vectors of both; and
  // the way beside which such searches rank. `both_pass`: it finds the items as well as the verdict kPassed asks for.
  std::vector<WayReport> both;
  std::optional<AdapterMode> both_beside;
  bool both_pass = false;
  std::optional<RankingFigures> reverse;  // the older generation's queries on the new one's items
  // Over the items that both embedded (and the reference, if there is one). P_com of the chosen or best way, P_up only
  // with a reference; stats/metrics.h.
  uint64_t common_items = 0;
  // The largest number of pairs that an adapter of `ways` was fitted from: as many of the common items may be among
  // them, on which it does better than elsewhere.
  uint64_t fitted_pairs = 0;
  // An adapter of `ways` may have been fitted from the common items, so they grant no pass by an adapter. The store
  // keeps the verdict alone.
  bool common_fitted = false;
  std::optional<double> p_com_cmc1, p_com_map, p_up_cmc1, p_up_map;
  // What the new generation itself gains over the older one, each by its own queries on the common items. Empty in
  // reports of older servers.
  std::optional<Estimate> own_cmc1_gain, own_map_gain, own_measure_gain;
  // Empty where the probes cannot tell what they are a share of from 0, and in reports of older servers.
  std::optional<Estimate> p_com_cmc1_interval, p_com_map_interval, p_up_cmc1_interval, p_up_map_interval;
};

struct ValidationReport {
  bool passed = false;
  absl::Time time;
  double tolerance = 0;
  GateMeasure measure;                // what generations are compared by
  uint32_t reference_generation = 0;  // 0: the validated one
  // What it saw: it holds as long as they are the same.
  std::map<std::string, int64_t> probe_sets;                   // CollectionRecord::probe_sets
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> adapters;  // versions, of pairs of the validated generation
  uint64_t probes = 0;                                         // probes in all sets
  uint64_t probes_without = 0;                                 // probes that have nothing to find any more
  uint64_t missing_items = 0;                                  // items that probes name and nobody has any more
  std::optional<RankingFigures> new_self;                      // the generation's own queries on its own items
  std::optional<RelevanceCurve> new_relevance;                 // curve of their distances
  // PairReport::old_relevance of generations that an earlier validation measured and this one did not, having no items
  // left: thresholds that were found under them hold on.
  std::map<uint32_t, RelevanceCurve> kept_relevance;
  std::vector<PairReport> pairs;  // pairs by ascending item_generation

  // Whether it did not pass, but searches that carry vectors of the older generations find every pair's items well.
  bool passes_by_both() const;
  // The share embedded anew from which on every pair passes. nullopt: it passed, or some pair passes at no measured
  // share.
  std::optional<double> passes_from_share() const;
};

struct ValidateCall {
  std::string request_id;
  std::string collection;
  uint32_t generation = 0;
  std::optional<double> tolerance;    // largest loss against the older generation's own queries; nullopt: 0.02
  uint32_t reference_generation = 0;  // trained alone on the same data; 0: none
  GateMeasure measure = {};           // what generations are compared by
  bool calibrate = true;              // false: mixed galleries are measured, and ranked, by plain distances
};

// One line: what was found, against what, and what that means.
std::string TextOf(const PairReport& pair);

// As JSON, for the store and for jobs.
std::string Encode(const ValidationReport& report);
absl::StatusOr<ValidationReport> DecodeValidation(std::string_view bytes);

// "passed", "worse", "uncertain", "dips", "unmeasured"; "none", "query", "item".
std::string_view VerdictName(Verdict verdict);
std::string_view WayName(AdapterMode way);

}  // namespace lightcone::server
