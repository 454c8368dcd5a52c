#include "cli/json/rollout_json.h"

#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "base/strings.h"
#include "cli/formats/ids.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

std::string WayName(v1::ValidationWay way) {
  const std::string name = EnumName(way);
  return name.substr(0, name.find('_'));  // "none", "query", "item", "both"
}

std::string WayText(const v1::WayValidation& way) {
  if (way.way() != v1::VALIDATION_WAY_BOTH) return StrCat(WayName(way.way()), way.in_reach() ? "" : " (out of reach)");
  return StrCat("both: ", Number(way.older_weight()), way.conditioned() ? " old, conditioned, beside " : " old beside ",
                WayName(way.beside()));
}

OrderedJson CalibrationJson(const v1::WayCalibration& calibration) {
  if (!calibration.none_because().empty()) return {{"none_because", calibration.none_because()}};
  return FieldsJson(calibration, {"offset", "slope", "cmc1_gain", "map_gain", "mixture", "dips", "wins"});
}

OrderedJson WayJson(const v1::WayValidation& way) {
  OrderedJson json = {{"way", WayName(way.way())}};
  if (way.way() == v1::VALIDATION_WAY_BOTH) {
    json["beside"] = WayName(way.beside());
    json["older_weight"] = way.older_weight();
    json["conditioned"] = way.conditioned();
  }
  json.update(FieldsJson(way, {"in_reach", "figures", "cmc1_gain", "map_gain", "mixture", "dips"}));
  if (way.has_calibration()) json["calibration"] = CalibrationJson(way.calibration());
  json.update(FieldsJson(way, {"missed?", "measure_gain?"}));
  return json;
}

OrderedJson PairJson(const v1::PairValidation& pair) {
  OrderedJson json = FieldsJson(pair, {"item_generation", "items", "verdict"});
  if (pair.verdict() == v1::VALIDATION_VERDICT_PASSED) json["chosen"] = WayName(pair.chosen());
  json["both_passes"] = pair.both_passes();
  json.update(FieldsJson(pair, {"judged_share", "passes_from_share?", "every_item?", "old_self"}));
  json["ways"] = OrderedJson::array();
  for (const v1::WayValidation& way : pair.ways()) json["ways"].push_back(WayJson(way));
  json.update(
      FieldsJson(pair, {"reverse?", "common_items", "p_com_cmc1?", "p_com_map?", "p_up_cmc1?", "p_up_map?",
                        "p_com_cmc1_interval?", "p_com_map_interval?", "p_up_cmc1_interval?", "p_up_map_interval?",
                        "own_cmc1_gain?", "own_map_gain?", "own_measure_gain?", "summary"}));
  return json;
}

std::string Shown(const v1::Estimate& e) {
  if (e.probes() == 0) return "-";
  return absl::StrFormat("%.3f (%.3f .. %.3f)", e.value(), e.low(), e.high());
}

// A quotient, which has no interval where the probes cannot tell what it is a share of from 0.
std::string Shown(bool defined, double value, const v1::Estimate& interval) {
  if (!defined) return "-";
  return interval.probes() == 0 ? absl::StrFormat("%.3f", value) : Shown(interval);
}

// A line for each way whose distances were to be calibrated.
std::string CalibrationLines(const v1::PairValidation& pair) {
  std::string text;
  for (const v1::WayValidation& way : pair.ways()) {
    if (!way.has_calibration()) continue;
    const v1::WayCalibration& c = way.calibration();
    text += StrCat("calibration of generation ", pair.item_generation(), ", way ", WayText(way), ": ");
    if (!c.none_because().empty()) {
      text += StrCat("none: ", c.none_because(), "\n");
      continue;
    }
    const bool chosen = pair.verdict() == v1::VALIDATION_VERDICT_PASSED && pair.chosen() == way.way();
    text += StrCat(Number(c.offset()), " + ", Number(c.slope()), " * distance, gain CMC@1 ", Shown(c.cmc1_gain()),
                   ", mAP ", Shown(c.map_gain()), ": ",
                   !c.wins() ? "does not win"
                   : chosen  ? "wins, in force"
                             : "wins",
                   way.dips() && !c.dips() ? "; without it the mixture dips" : "", "\n");
  }
  return text;
}

}  // namespace

OrderedJson ValidationJson(const v1::Validation& validation) {
  OrderedJson json = FieldsJson(
      validation, {"passed", "passes_from_share?", "outdated", "time", "tolerance", "measure", "reference_generation?",
                   "probe_sets", "probes", "probes_without", "missing_items", "new_self?"});
  json["pairs"] = OrderedJson::array();
  for (const v1::PairValidation& pair : validation.pairs()) json["pairs"].push_back(PairJson(pair));
  return json;
}

std::string ValidationTable(const v1::Validation& validation) {
  Table table({"queries", "items of", "way", "CMC@1", "CMC@5", "mAP", "gain CMC@1", "gain mAP", "verdict"});
  const auto add = [&](const std::string& queries, const std::string& items, const std::string& way,
                       const v1::RankingFigures& f, const std::string& cmc1, const std::string& map,
                       const std::string& verdict) {
    table.Add({queries, items, way, Shown(f.cmc1()), Shown(f.cmc5()), Shown(f.map()), cmc1, map, verdict});
  };
  std::string more;
  for (const v1::PairValidation& pair : validation.pairs()) {
    const std::string old = StrCat(pair.item_generation());
    add(old, old, "-", pair.old_self(), "-", "-", "-");
    for (const v1::WayValidation& way : pair.ways()) {
      const bool both = way.way() == v1::VALIDATION_WAY_BOTH;
      const bool chosen = pair.verdict() == v1::VALIDATION_VERDICT_PASSED && pair.chosen() == way.way();
      if (way.has_measure_gain()) {
        more += StrCat("gain in ", validation.measure(), " on items of ", old, ", ", both ? "old + new" : "new",
                       ", way ", WayText(way), ": ", Shown(way.measure_gain()), "\n");
      }
      add(both ? "old + new" : "new", old, WayText(way), way.figures(), Shown(way.cmc1_gain()), Shown(way.map_gain()),
          both                                              ? (pair.both_passes() ? "passes with both" : "-")
          : chosen                                          ? "passed, chosen"
          : pair.verdict() == v1::VALIDATION_VERDICT_PASSED ? "-"
                                                            : EnumName(pair.verdict()));
    }
    if (pair.has_reverse()) add(old, "new", "-", pair.reverse(), "-", "-", "-");
    if (pair.has_p_com_map()) {
      more += absl::StrFormat(
          "P_com on %d items that both embedded (adapters may have been fitted on them), of generation %s: "
          "CMC@1 %s, mAP %s\n",
          pair.common_items(), old, Shown(pair.has_p_com_cmc1(), pair.p_com_cmc1(), pair.p_com_cmc1_interval()),
          Shown(true, pair.p_com_map(), pair.p_com_map_interval()));
    }
    if (pair.has_p_up_map()) {
      more += absl::StrFormat("P_up there: CMC@1 %s, mAP %s\n",
                              Shown(pair.has_p_up_cmc1(), pair.p_up_cmc1(), pair.p_up_cmc1_interval()),
                              Shown(true, pair.p_up_map(), pair.p_up_map_interval()));
    }
    if (pair.every_item()) {
      more +=
          StrCat("generation ", old, ": every item is carried by the adapter until its segments are carried over\n");
    }
    if (pair.verdict() == v1::VALIDATION_VERDICT_PASSED && pair.judged_share() > 0) {
      more += StrCat("generation ", old, ": passed with ", PercentText(pair.judged_share()),
                     " of its items embedded anew, as the gallery was then\n");
    }
    more += CalibrationLines(pair);
    if (pair.verdict() != v1::VALIDATION_VERDICT_PASSED) more += pair.summary() + "\n";
  }
  if (validation.has_new_self()) add("new", "new", "-", validation.new_self(), "-", "-", "-");
  const std::string head =
      StrCat("validation ", validation.passed() ? "passed" : "not passed", " by ", validation.probes(), " probes",
             validation.outdated().empty() ? "" : StrCat("; outdated: ", validation.outdated()));
  return StrCat(head, "\n", table.Text(), more);
}

std::string HowToPassByBackfill(const v1::Validation& validation, std::string_view collection, uint32_t generation,
                                std::string_view embed_rate) {
  if (!validation.has_passes_from_share()) return "";
  std::string from;
  for (const v1::PairValidation& pair : validation.pairs()) {
    if (pair.verdict() == v1::VALIDATION_VERDICT_PASSED) continue;
    from += StrCat(from.empty() ? "" : " and ", PercentText(pair.passes_from_share()), " of the items of generation ",
                   pair.item_generation());
  }
  const bool whole = validation.passes_from_share() >= 1;
  return StrCat(
      "The gate would pass ",
      whole ? std::string("only with the whole gallery embedded anew") : StrCat("with ", from, " embedded anew"),
      ": `lightcone backfill start ", collection, " --generation ", generation,
      embed_rate.empty() ? "`, and let workers embed them" : StrCat(" --embed-rate ", embed_rate, "`"),
      ", then run this again. That backfill takes the place of another generation's under way. Else: ");
}

OrderedJson ProbeSetJson(const v1::ProbeSetInfo& info) {
  return FieldsJson(info, {"name", "label_field", "probes", "vectors", "inputs", "bytes", "put"});
}

std::string ProbeSetsTable(const std::vector<v1::ProbeSetInfo>& infos) {
  Table table({"probe set", "label", "probes", "vectors by generation", "inputs", "size"});
  for (const v1::ProbeSetInfo& info : infos) {
    std::string vectors;
    for (const auto& by : info.vectors()) {
      vectors += StrCat(vectors.empty() ? "" : " ", by.generation(), ":", by.probes());
    }
    table.Add({info.name(), info.label_field().empty() ? "-" : info.label_field(), Grouped(info.probes()),
               vectors.empty() ? "-" : vectors, Grouped(info.inputs()), Bytes(info.bytes())});
  }
  return table.Text();
}

OrderedJson SampleJson(const v1::SampleItemsResponse& sample) { return FieldsJson(sample, {"items"}); }

std::string SampleTable(const v1::SampleItemsResponse& sample) {
  if (sample.items().empty()) return "no items: it, or a newer one, has embedded all that older generations have\n";
  Table table({"id", "sequence", "generation", "input"});
  for (const v1::SampledItem& item : sample.items()) {
    table.Add(
        {ItemIdText(item.id()), StrCat(item.sequence()), StrCat(item.generation()), item.has_input() ? "stored" : "-"});
  }
  return table.Text();
}

OrderedJson JobJson(const v1::JobInfo& job) {
  OrderedJson json = FieldsJson(job, {"id", "kind", "collection", "generation", "state", "done", "total", "step",
                                      "created", "started", "ended", "attempts"});
  if (!job.progress_json().empty()) json["progress"] = PayloadJson(job.progress_json());
  if (!job.result_json().empty()) json["result"] = PayloadJson(job.result_json());
  if (job.has_error()) json["error"] = job.error().message();
  return json;
}

std::string JobsTable(const std::vector<v1::JobInfo>& jobs) {
  Table table({"job", "kind", "collection", "generation", "state", "done", "step"});
  std::string errors;
  for (const v1::JobInfo& job : jobs) {
    table.Add({job.id(), job.kind(), job.collection(), StrCat(job.generation()), EnumName(job.state()),
               job.total() == 0 ? "-" : StrCat(job.done(), " of ", job.total()),
               job.step().empty() ? "-" : job.step()});
    if (job.has_error()) errors += StrCat("job ", job.id(), ": ", job.error().message(), "\n");
  }
  return table.Text() + errors;
}

}  // namespace lightcone::cli
