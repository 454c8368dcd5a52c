#include "cli/json/rollout_json.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "cli/formats/ids.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

std::string WayName(v1::ValidationWay way) {
  std::string name = LowerWithout(v1::ValidationWay_Name(way), "VALIDATION_WAY_");
  return name.substr(0, name.find('_'));  // "none", "query", "item"
}

std::string VerdictName(v1::ValidationVerdict verdict) {
  return LowerWithout(v1::ValidationVerdict_Name(verdict), "VALIDATION_VERDICT_");
}

OrderedJson EstimateJson(const v1::Estimate& e) {
  return {{"value", e.value()}, {"low", e.low()}, {"high", e.high()}, {"probes", e.probes()}};
}

OrderedJson FiguresJson(const v1::RankingFigures& f) {
  return {{"cmc1", EstimateJson(f.cmc1())}, {"cmc5", EstimateJson(f.cmc5())}, {"map", EstimateJson(f.map())}};
}

OrderedJson MixtureJson(const google::protobuf::RepeatedPtrField<v1::MixturePoint>& mixture) {
  OrderedJson json = OrderedJson::array();
  for (const v1::MixturePoint& point : mixture) {
    json.push_back({{"share", point.share()}, {"cmc1", point.cmc1()}, {"map", point.map()}});
  }
  return json;
}

OrderedJson CalibrationJson(const v1::WayCalibration& calibration) {
  if (!calibration.none_because().empty()) return {{"none_because", calibration.none_because()}};
  OrderedJson json;
  json["offset"] = calibration.offset();
  json["slope"] = calibration.slope();
  json["cmc1_gain"] = EstimateJson(calibration.cmc1_gain());
  json["map_gain"] = EstimateJson(calibration.map_gain());
  json["mixture"] = MixtureJson(calibration.mixture());
  json["dips"] = calibration.dips();
  json["wins"] = calibration.wins();
  return json;
}

OrderedJson WayJson(const v1::WayValidation& way) {
  OrderedJson json;
  json["way"] = WayName(way.way());
  json["in_reach"] = way.in_reach();
  json["figures"] = FiguresJson(way.figures());
  json["cmc1_gain"] = EstimateJson(way.cmc1_gain());
  json["map_gain"] = EstimateJson(way.map_gain());
  json["mixture"] = MixtureJson(way.mixture());
  json["dips"] = way.dips();
  if (way.has_calibration()) json["calibration"] = CalibrationJson(way.calibration());
  if (way.has_missed()) json["missed"] = way.missed();
  return json;
}

OrderedJson PairJson(const v1::PairValidation& pair) {
  OrderedJson json;
  json["item_generation"] = pair.item_generation();
  json["items"] = pair.items();
  json["verdict"] = VerdictName(pair.verdict());
  if (pair.verdict() == v1::VALIDATION_VERDICT_PASSED) json["chosen"] = WayName(pair.chosen());
  if (pair.every_item()) json["every_item"] = true;
  json["old_self"] = FiguresJson(pair.old_self());
  json["ways"] = OrderedJson::array();
  for (const v1::WayValidation& way : pair.ways()) json["ways"].push_back(WayJson(way));
  if (pair.has_reverse()) json["reverse"] = FiguresJson(pair.reverse());
  json["common_items"] = pair.common_items();
  if (pair.has_p_com_cmc1()) json["p_com_cmc1"] = pair.p_com_cmc1();
  if (pair.has_p_com_map()) json["p_com_map"] = pair.p_com_map();
  if (pair.has_p_up_cmc1()) json["p_up_cmc1"] = pair.p_up_cmc1();
  if (pair.has_p_up_map()) json["p_up_map"] = pair.p_up_map();
  if (pair.has_p_com_cmc1_interval()) json["p_com_cmc1_interval"] = EstimateJson(pair.p_com_cmc1_interval());
  if (pair.has_p_com_map_interval()) json["p_com_map_interval"] = EstimateJson(pair.p_com_map_interval());
  if (pair.has_p_up_cmc1_interval()) json["p_up_cmc1_interval"] = EstimateJson(pair.p_up_cmc1_interval());
  if (pair.has_p_up_map_interval()) json["p_up_map_interval"] = EstimateJson(pair.p_up_map_interval());
  json["summary"] = pair.summary();
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
    text += StrCat("calibration of generation ", pair.item_generation(), ", way ", WayName(way.way()), ": ");
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
  OrderedJson json;
  json["passed"] = validation.passed();
  json["outdated"] = validation.outdated();
  json["time"] = TimeJson(validation.has_time(), validation.time());
  json["tolerance"] = validation.tolerance();
  if (validation.reference_generation() != 0) json["reference_generation"] = validation.reference_generation();
  json["probe_sets"] = OrderedJson::array();
  for (const std::string& name : validation.probe_sets()) json["probe_sets"].push_back(name);
  json["probes"] = validation.probes();
  json["probes_without"] = validation.probes_without();
  json["missing_items"] = validation.missing_items();
  if (validation.has_new_self()) json["new_self"] = FiguresJson(validation.new_self());
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
      const bool chosen = pair.verdict() == v1::VALIDATION_VERDICT_PASSED && pair.chosen() == way.way();
      add("new", old, StrCat(WayName(way.way()), way.in_reach() ? "" : " (out of reach)"), way.figures(),
          Shown(way.cmc1_gain()), Shown(way.map_gain()),
          chosen                                            ? "passed, chosen"
          : pair.verdict() == v1::VALIDATION_VERDICT_PASSED ? "-"
                                                            : VerdictName(pair.verdict()));
    }
    if (pair.has_reverse()) add(old, "new", "-", pair.reverse(), "-", "-", "-");
    if (pair.has_p_com_map()) {
      more += absl::StrFormat("P_com on %d common items of generation %s: CMC@1 %s, mAP %s\n", pair.common_items(), old,
                              Shown(pair.has_p_com_cmc1(), pair.p_com_cmc1(), pair.p_com_cmc1_interval()),
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
    more += CalibrationLines(pair);
    if (pair.verdict() != v1::VALIDATION_VERDICT_PASSED) more += pair.summary() + "\n";
  }
  if (validation.has_new_self()) add("new", "new", "-", validation.new_self(), "-", "-", "-");
  const std::string head =
      StrCat("validation ", validation.passed() ? "passed" : "not passed", " by ", validation.probes(), " probes",
             validation.outdated().empty() ? "" : StrCat("; outdated: ", validation.outdated()));
  return StrCat(head, "\n", table.Text(), more);
}

OrderedJson ProbeSetJson(const v1::ProbeSetInfo& info) {
  OrderedJson json;
  json["name"] = info.name();
  json["label_field"] = info.label_field();
  json["probes"] = info.probes();
  json["vectors"] = OrderedJson::array();
  for (const auto& by : info.vectors()) {
    json["vectors"].push_back({{"generation", by.generation()}, {"probes", by.probes()}});
  }
  json["inputs"] = info.inputs();
  json["bytes"] = info.bytes();
  json["put"] = TimeJson(info.has_put(), info.put());
  return json;
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

OrderedJson SampleJson(const v1::SampleItemsResponse& sample) {
  OrderedJson json;
  json["items"] = OrderedJson::array();
  for (const v1::SampledItem& item : sample.items()) {
    json["items"].push_back({{"id", ItemIdJson(item.id())},
                             {"sequence", item.sequence()},
                             {"generation", item.generation()},
                             {"has_input", item.has_input()}});
  }
  return json;
}

std::string SampleTable(const v1::SampleItemsResponse& sample) {
  if (sample.items().empty()) return "no items: it, or a newer one, has embedded all that older generations have\n";
  Table table({"id", "sequence", "generation", "input"});
  for (const v1::SampledItem& item : sample.items()) {
    table.Add(
        {ItemIdText(item.id()), StrCat(item.sequence()), StrCat(item.generation()), item.has_input() ? "stored" : "-"});
  }
  return table.Text();
}

std::string JobStateName(v1::JobState state) { return LowerWithout(v1::JobState_Name(state), "JOB_STATE_"); }

OrderedJson JobJson(const v1::JobInfo& job) {
  OrderedJson json;
  json["id"] = job.id();
  json["kind"] = job.kind();
  json["collection"] = job.collection();
  json["generation"] = job.generation();
  json["state"] = JobStateName(job.state());
  json["done"] = job.done();
  json["total"] = job.total();
  json["step"] = job.step();
  json["created"] = TimeJson(job.has_created(), job.created());
  json["started"] = TimeJson(job.has_started(), job.started());
  json["ended"] = TimeJson(job.has_ended(), job.ended());
  json["attempts"] = job.attempts();
  if (!job.progress_json().empty()) json["progress"] = PayloadJson(job.progress_json());
  if (!job.result_json().empty()) json["result"] = PayloadJson(job.result_json());
  if (job.has_error()) json["error"] = job.error().message();
  return json;
}

std::string JobsTable(const std::vector<v1::JobInfo>& jobs) {
  Table table({"job", "kind", "collection", "generation", "state", "done", "step"});
  std::string errors;
  for (const v1::JobInfo& job : jobs) {
    table.Add({job.id(), job.kind(), job.collection(), StrCat(job.generation()), JobStateName(job.state()),
               job.total() == 0 ? "-" : StrCat(job.done(), " of ", job.total()),
               job.step().empty() ? "-" : job.step()});
    if (job.has_error()) errors += StrCat("job ", job.id(), ": ", job.error().message(), "\n");
  }
  return table.Text() + errors;
}

}  // namespace lightcone::cli
