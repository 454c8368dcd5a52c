#include <algorithm>
#include <functional>

#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "base/status.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/collection/record_json.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kValidationKind = "validation";
constexpr size_t kFirstMeasures = 3;  // measures that every record has
constexpr std::pair<Verdict, std::string_view> kVerdicts[] = {{Verdict::kPassed, "passed"},
                                                              {Verdict::kWorse, "worse"},
                                                              {Verdict::kUncertain, "uncertain"},
                                                              {Verdict::kDips, "dips"},
                                                              {Verdict::kUnmeasured, "unmeasured"}};
constexpr std::pair<AdapterMode, std::string_view> kWays[] = {
    {AdapterMode::kNone, "none"}, {AdapterMode::kQuery, "query"}, {AdapterMode::kItem, "item"}};
constexpr std::pair<const char*, std::optional<double> PairReport::*> kCommonShares[] = {
    {"p_com_cmc1", &PairReport::p_com_cmc1},
    {"p_com_map", &PairReport::p_com_map},
    {"p_up_cmc1", &PairReport::p_up_cmc1},
    {"p_up_map", &PairReport::p_up_map}};
constexpr std::pair<const char*, std::optional<Estimate> PairReport::*> kCommonIntervals[] = {
    {"p_com_cmc1_interval", &PairReport::p_com_cmc1_interval},
    {"p_com_map_interval", &PairReport::p_com_map_interval},
    {"p_up_cmc1_interval", &PairReport::p_up_cmc1_interval},
    {"p_up_map_interval", &PairReport::p_up_map_interval},
    {"own_cmc1_gain", &PairReport::own_cmc1_gain},
    {"own_map_gain", &PairReport::own_map_gain},
    {"own_measure_gain", &PairReport::own_measure_gain}};

template <typename Value, size_t n>
std::string_view NameOf(const std::pair<Value, std::string_view> (&names)[n], Value value, std::string_view other) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return other;
}

Json ToJson(const Estimate& e) { return {{"value", e.value}, {"low", e.low}, {"high", e.high}, {"probes", e.samples}}; }
Json ToJson(const RankingFigures& f) {
  Json json;
  for (size_t i = 0; i < kRankingMeasures.size(); ++i) {
    if (f.all()[i]->samples > 0 || i < kFirstMeasures)
      json[std::string(kRankingMeasures[i].second)] = ToJson(*f.all()[i]);
  }
  return json;
}
Json ToJson(const std::vector<MixturePoint>& points) {
  Json mixture = Json::array();
  for (const MixturePoint& p : points) mixture.push_back({{"share", p.share}, {"cmc1", p.cmc1}, {"map", p.map}});
  return mixture;
}
Json ToJson(const CalibrationReport& c) {
  if (!c.none_because.empty()) return {{"none_because", c.none_because}};
  return {{"offset", c.map.offset},
          {"slope", c.map.slope},
          {"cmc1_gain", ToJson(c.cmc1_gain)},
          {"map_gain", ToJson(c.map_gain)},
          {"mixture", ToJson(c.mixture)},
          {"dips", c.dips},
          {"wins", c.wins}};
}
Json ToJson(const RelevanceCurve& c) {
  Json distances = Json::array(), chances = Json::array();
  for (const RelevanceCurve::Point& p : c.points) {
    distances.push_back(p.distance);
    chances.push_back(p.chance);
  }
  return {{"distances", std::move(distances)}, {"chances", std::move(chances)}, {"quantiles", c.quantiles}};
}
Json ToJson(const WayReport& w) {
  Json json = {{"way", std::string(WayName(w.way))},
               {"in_reach", w.in_reach},
               {"figures", ToJson(w.figures)},
               {"cmc1_gain", ToJson(w.cmc1_gain)},
               {"map_gain", ToJson(w.map_gain)},
               {"mixture", ToJson(w.mixture)},
               {"dips", w.dips}};
  if (w.calibration) json["calibration"] = ToJson(*w.calibration);
  if (w.missed) json["missed"] = *w.missed;
  if (w.measure_gain) json["measure_gain"] = ToJson(*w.measure_gain);
  if (w.older) json["older_weight"] = w.older->weight;
  if (w.older && w.older->conditioned) json["conditioned"] = true;
  if (w.relevance) json["relevance"] = ToJson(*w.relevance);
  return json;
}
Json ToJson(const PairReport& p) {
  Json ways = Json::array();
  for (const WayReport& way : p.ways) ways.push_back(ToJson(way));
  Json json = {{"item_generation", p.item_generation},
               {"items", p.items},
               {"verdict", std::string(VerdictName(p.verdict))},
               {"chosen", std::string(WayName(p.chosen))},
               {"old_self", ToJson(p.old_self)},
               {"ways", std::move(ways)},
               {"common_items", p.common_items}};
  if (p.old_relevance) json["old_relevance"] = ToJson(*p.old_relevance);
  if (p.replaced) json["replaced"] = true;
  if (p.every_item) json["every_item"] = true;
  if (p.judged_share > 0) json["judged_share"] = p.judged_share;
  if (p.passes_from_share) json["passes_from_share"] = *p.passes_from_share;
  if (!p.both.empty()) {
    Json both = Json::array();
    for (const WayReport& way : p.both) both.push_back(ToJson(way));
    json["both"] = std::move(both);
    json["both_pass"] = p.both_pass;
    if (p.both_beside) json["both_beside"] = std::string(WayName(*p.both_beside));
  }
  if (p.fitted_pairs > 0) json["fitted_pairs"] = p.fitted_pairs;
  if (p.reverse) json["reverse"] = ToJson(*p.reverse);
  for (const auto& [name, share] : kCommonShares) {
    if (p.*share) json[name] = *(p.*share);
  }
  for (const auto& [name, interval] : kCommonIntervals) {
    if (p.*interval) json[name] = ToJson(*(p.*interval));
  }
  return json;
}

// Reads objects within objects. The first field that is missing or of another type makes it fail.
class ReportReader {
 public:
  explicit ReportReader(const Json& json) : fields_(kValidationKind, json) {}

  void Read(const char* name, Estimate* out) {
    ReadObject(name, [&](ReportReader* in) {
      in->fields_.Read("value", &out->value);
      in->fields_.Read("low", &out->low);
      in->fields_.Read("high", &out->high);
      in->fields_.Read("probes", &out->samples);
    });
  }
  void Read(const char* name, RankingFigures* out) {
    ReadObject(name, [&](ReportReader* in) {
      for (size_t i = 0; i < kRankingMeasures.size(); ++i) {
        const char* const measure = kRankingMeasures[i].second.data();
        if (i < kFirstMeasures || in->fields().Has(measure)) in->Read(measure, out->all()[i]);
      }
    });
  }
  void Read(const char* name, double* out) { fields_.Read(name, out); }
  void Read(const char* name, RelevanceCurve* out) {
    ReadObject(name, [&](ReportReader* in) {
      std::vector<double> distances, chances;
      in->ReadNumbers("distances", &distances);
      in->ReadNumbers("chances", &chances);
      in->ReadNumbers("quantiles", &out->quantiles);
      if (chances.size() != distances.size()) return in->fields_.Fail("chances");
      for (size_t i = 0; i < chances.size(); ++i) out->points.push_back({distances[i], chances[i]});
      if (!out->Validate().ok()) in->fields_.Fail("distances");
    });
  }
  void ReadNumbers(const char* name, std::vector<double>* out) {
    const Json* json = fields_.Find(name);
    if (json == nullptr || !json->is_array()) return fields_.Fail(name);
    for (const Json& number : *json) {
      if (!number.is_number()) return fields_.Fail(name);
      out->push_back(number.get<double>());
    }
  }
  template <typename Value>
  void Read(const char* name, std::optional<Value>* out) {
    if (fields_.Has(name)) Read(name, &out->emplace());
  }
  template <typename Value, size_t n>
  void Read(const char* name, const std::pair<Value, std::string_view> (&names)[n], Value* out) {
    std::string text;
    fields_.Read(name, &text);
    for (const auto& [value, known] : names) {
      if (known != text) continue;
      *out = value;
      return;
    }
    fields_.Fail(name);
  }
  void ReadObject(const char* name, const std::function<void(ReportReader*)>& read) {
    const Json* json = fields_.Find(name);
    if (json == nullptr || !ReadInto(*json, read)) fields_.Fail(name);
  }
  void ReadList(const char* name, const std::function<void(ReportReader*)>& read) {
    const Json* json = fields_.Find(name);
    if (json == nullptr || !json->is_array()) return fields_.Fail(name);
    for (const Json& one : *json) {
      if (!ReadInto(one, read)) return fields_.Fail(name);
    }
  }
  FieldReader& fields() { return fields_; }

 private:
  static bool ReadInto(const Json& json, const std::function<void(ReportReader*)>& read) {
    if (!json.is_object()) return false;
    ReportReader inner(json);
    read(&inner);
    return inner.fields_.status().ok();
  }

  FieldReader fields_;
};

void ReadMixture(ReportReader* in, std::vector<MixturePoint>* mixture) {
  in->ReadList("mixture", [&](ReportReader* point) {
    MixturePoint& to = mixture->emplace_back();
    point->fields().Read("share", &to.share);
    point->fields().Read("cmc1", &to.cmc1);
    point->fields().Read("map", &to.map);
  });
}

// Reads a share of a gallery, from 0 to 1.
void ReadGalleryShare(ReportReader* in, const char* name, double* share) {
  in->fields().Read(name, share);
  if (!(*share >= 0 && *share <= 1)) in->fields().Fail(name);
}

void ReadCalibration(ReportReader* in, CalibrationReport* calibration) {
  if (in->fields().Has("none_because")) return in->fields().Read("none_because", &calibration->none_because);
  in->fields().Read("offset", &calibration->map.offset);
  in->fields().Read("slope", &calibration->map.slope);
  if (!calibration->map.Validate().ok()) in->fields().Fail("slope");
  in->Read("cmc1_gain", &calibration->cmc1_gain);
  in->Read("map_gain", &calibration->map_gain);
  ReadMixture(in, &calibration->mixture);
  in->fields().Read("dips", &calibration->dips);
  in->fields().Read("wins", &calibration->wins);
}

void ReadOlderShare(ReportReader* in, WayReport* way) {
  if (!in->fields().Has("older_weight")) return;
  OlderShare& share = way->older.emplace();
  in->fields().Read("older_weight", &share.weight);
  if (in->fields().Has("conditioned")) in->fields().Read("conditioned", &share.conditioned);
  const bool in_range = share.weight >= 0 && (share.conditioned ? share.weight < 1 : share.weight <= 1);
  if (!in_range) in->fields().Fail("older_weight");
}

void ReadWay(ReportReader* in, WayReport* way) {
  in->Read("way", kWays, &way->way);
  in->fields().Read("in_reach", &way->in_reach);
  in->Read("figures", &way->figures);
  in->Read("cmc1_gain", &way->cmc1_gain);
  in->Read("map_gain", &way->map_gain);
  in->fields().Read("dips", &way->dips);
  ReadMixture(in, &way->mixture);
  in->Read("missed", &way->missed);
  in->Read("measure_gain", &way->measure_gain);
  ReadOlderShare(in, way);
  in->Read("relevance", &way->relevance);
  if (!in->fields().Has("calibration")) return;
  in->ReadObject("calibration", [&](ReportReader* one) { ReadCalibration(one, &way->calibration.emplace()); });
}

void ReadPair(ReportReader* in, PairReport* pair) {
  in->fields().Read("item_generation", &pair->item_generation);
  in->fields().Read("items", &pair->items);
  in->fields().Read("common_items", &pair->common_items);
  if (in->fields().Has("replaced")) in->fields().Read("replaced", &pair->replaced);
  if (in->fields().Has("every_item")) in->fields().Read("every_item", &pair->every_item);
  if (in->fields().Has("judged_share")) ReadGalleryShare(in, "judged_share", &pair->judged_share);
  if (in->fields().Has("passes_from_share")) {
    ReadGalleryShare(in, "passes_from_share", &pair->passes_from_share.emplace());
  }
  in->Read("verdict", kVerdicts, &pair->verdict);
  in->Read("chosen", kWays, &pair->chosen);
  in->Read("old_self", &pair->old_self);
  in->Read("old_relevance", &pair->old_relevance);
  in->Read("reverse", &pair->reverse);
  for (const auto& [name, share] : kCommonShares) in->Read(name, &(pair->*share));
  for (const auto& [name, interval] : kCommonIntervals) in->Read(name, &(pair->*interval));
  in->ReadList("ways", [&](ReportReader* way) { ReadWay(way, &pair->ways.emplace_back()); });
  if (in->fields().Has("fitted_pairs")) in->fields().Read("fitted_pairs", &pair->fitted_pairs);
  if (!in->fields().Has("both")) return;  // A record of an older server, or no way was open.
  in->ReadList("both", [&](ReportReader* way) {
    ReadWay(way, &pair->both.emplace_back());
    if (!pair->both.back().older) way->fields().Fail("older_weight");
  });
  in->fields().Read("both_pass", &pair->both_pass);
  if (in->fields().Has("both_beside")) in->Read("both_beside", kWays, &pair->both_beside.emplace());
}

std::string Shown(const Estimate& e) { return absl::StrFormat("%.3f (%.3f .. %.3f)", e.value, e.low, e.high); }

// What searches do with the chosen way's distances, unless they take plain ones.
std::string HowRanked(const PairReport& pair) {
  for (const WayReport& way : pair.ways) {
    if (pair.replaced || way.way != pair.chosen || !way.calibrated()) continue;
    return StrCat(", its distances calibrated",
                  way.dips ? ", without which a partly backfilled gallery would fall below both its ends" : "");
  }
  return "";
}

// The gain that the gate judges by, where the call named a measure.
std::string TextOfMeasure(const WayReport& way) {
  return way.measure_gain ? StrCat(", in the named measure ", Shown(*way.measure_gain)) : "";
}

// Says so where the new generation is no better in its own gallery: no way to older items can mend that.
std::string TextOfOwn(const PairReport& pair) {
  if (pair.replaced || !pair.own_cmc1_gain || !pair.own_map_gain) return "";
  std::vector<std::pair<std::string, Estimate>> judged = {{"CMC@1", *pair.own_cmc1_gain}, {"mAP", *pair.own_map_gain}};
  if (pair.own_measure_gain) judged = {{"the named measure", *pair.own_measure_gain}};
  std::string no_better;
  size_t count = 0;
  for (const auto& [name, gain] : judged) {
    if (gain.value > 0 || gain.samples == 0) continue;
    ++count;
    no_better += StrCat(no_better.empty() ? "" : ", ", name, " ", Shown(gain));
  }
  if (count == 0) return "";
  return StrCat("; the new model itself is no better than the old one here",
                count < judged.size() ? " in one measure" : "", ": its own queries on ", pair.common_items,
                " items that both embedded gain ", no_better);
}

// `share`: part of the pair's items, from 0 to 1.
std::string TextOfShare(const PairReport& pair, double share) {
  return StrCat(PercentText(share), " of the items of generation ", pair.item_generation, " embedded anew");
}

// At which share the verdict was found, and from which on it would be another.
std::string TextOfShares(const PairReport& pair) {
  const bool passed = pair.verdict == Verdict::kPassed;
  std::string text;
  if (pair.judged_share > 0) {
    text = passed ? StrCat(", with ", TextOfShare(pair, pair.judged_share), ", as then")
                  : StrCat("; with ", TextOfShare(pair, pair.judged_share), ", as then, it does not pass either");
  }
  if (pair.passes_from_share && !passed) {
    text += StrCat("; it would pass from ", TextOfShare(pair, *pair.passes_from_share), " on");
  }
  return text;
}

// What searches find that carry vectors of both generations.
std::string TextOfBoth(const PairReport& pair) {
  for (const WayReport& way : pair.both) {
    if (way.way != pair.both_beside) continue;
    const std::string beside =
        way.way == AdapterMode::kNone ? "plain distance" : StrCat("its ", WayName(way.way), " adapter");
    return StrCat("; the old query (weight ", way.older->weight, way.older->conditioned ? ", conditioned" : "",
                  ") beside ", beside, ": CMC@1 ", Shown(way.figures.cmc1), ", mAP ", Shown(way.figures.map),
                  ", gains ", Shown(way.cmc1_gain), " and ", Shown(way.map_gain), TextOfMeasure(way),
                  !pair.both_pass
                      ? StrCat(", which does not pass", pair.verdict == Verdict::kPassed ? "" : " either",
                               way.dips_in_force() ? ": a partly backfilled gallery falls below both its ends" : "")
                  : pair.verdict == Verdict::kPassed
                      ? ", which passes, too"
                      : StrCat(", which passes: for searches that carry the query's vector by generation ",
                               pair.item_generation, " in older_vectors, and for no others"));
  }
  return "";
}

}  // namespace

bool ValidationReport::passes_by_both() const {
  return !passed && std::all_of(pairs.begin(), pairs.end(), [](const PairReport& pair) {
    return pair.verdict == Verdict::kPassed || pair.both_pass;
  });
}

std::optional<double> ValidationReport::passes_from_share() const {
  std::optional<double> share;
  for (const PairReport& pair : pairs) {
    if (pair.verdict == Verdict::kPassed) continue;
    if (!pair.passes_from_share) return std::nullopt;
    share = std::max(*pair.passes_from_share, share.value_or(0));
  }
  return share;
}

std::string_view VerdictName(Verdict verdict) { return NameOf(kVerdicts, verdict, "unmeasured"); }
std::string_view WayName(AdapterMode way) { return NameOf(kWays, way, "none"); }

std::string Encode(const ValidationReport& r) {
  Json pairs = Json::array(), adapters = Json::array();
  for (const PairReport& pair : r.pairs) pairs.push_back(ToJson(pair));
  for (const auto& [pair, version] : r.adapters) {
    adapters.push_back({{"from", pair.first}, {"to", pair.second}, {"version", version}});
  }
  Json json = {{"format", kFormat},
               {"passed", r.passed},
               {"time_us", absl::ToUnixMicros(r.time)},
               {"tolerance", r.tolerance},
               {"reference_generation", r.reference_generation},
               {"probe_sets", r.probe_sets},
               {"adapters", std::move(adapters)},
               {"probes", r.probes},
               {"probes_without", r.probes_without},
               {"missing_items", r.missing_items},
               {"pairs", std::move(pairs)}};
  if (r.new_self) json["new_self"] = ToJson(*r.new_self);
  if (r.new_relevance) json["new_relevance"] = ToJson(*r.new_relevance);
  for (const auto& [generation, curve] : r.kept_relevance) {
    json["kept_relevance"].push_back({{"generation", generation}, {"curve", ToJson(curve)}});
  }
  if (r.measure.named()) json["measure"] = ParsableText(r.measure);
  // Follows from the pairs, so that nothing reads it again: for those who see the job's result.
  if (const auto share = r.passes_from_share()) json["passes_from_share"] = *share;
  return Dump(json);
}

absl::StatusOr<ValidationReport> DecodeValidation(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord(kValidationKind, bytes));
  ValidationReport r;
  ReportReader reader(json);
  int64_t time_us = 0;
  reader.fields().Read("passed", &r.passed);
  reader.fields().Read("time_us", &time_us);
  reader.fields().Read("tolerance", &r.tolerance);
  reader.fields().Read("reference_generation", &r.reference_generation);
  reader.fields().Read("probes", &r.probes);
  reader.fields().Read("probes_without", &r.probes_without);
  reader.fields().Read("missing_items", &r.missing_items);
  reader.Read("new_self", &r.new_self);
  reader.Read("new_relevance", &r.new_relevance);
  const auto read_kept = [&](ReportReader* in) {
    uint32_t generation = 0;
    in->fields().Read("generation", &generation);
    in->Read("curve", &r.kept_relevance[generation]);
  };
  if (reader.fields().Has("kept_relevance")) reader.ReadList("kept_relevance", read_kept);
  std::string measure;
  if (reader.fields().Has("measure")) reader.fields().Read("measure", &measure);
  reader.ReadObject("probe_sets", [&](ReportReader*) {});
  reader.ReadList("adapters", [&](ReportReader* in) {
    uint32_t from = 0, to = 0;
    uint64_t version = 0;
    in->fields().Read("from", &from);
    in->fields().Read("to", &to);
    in->fields().Read("version", &version);
    r.adapters[{from, to}] = version;
  });
  reader.ReadList("pairs", [&](ReportReader* in) { ReadPair(in, &r.pairs.emplace_back()); });
  LC_RETURN_IF_ERROR(reader.fields().status());
  LC_ASSIGN_OR_RETURN(r.measure, ParseGateMeasure(measure));
  for (const auto& [name, put_us] : json["probe_sets"].items()) {
    if (!put_us.is_number_integer()) return DataLoss("validation record: field 'probe_sets' is missing or damaged");
    r.probe_sets[name] = put_us.get<int64_t>();
  }
  r.time = absl::FromUnixMicros(time_us);
  return r;
}

std::string TextOf(const PairReport& pair) {
  const std::string on = pair.replaced ? StrCat("items that generation ", pair.item_generation, " embedded, too")
                                       : StrCat("items of generation ", pair.item_generation);
  if (pair.verdict == Verdict::kUnmeasured) {
    return StrCat(on, ": not measured: ",
                  pair.ways.empty() ? "no adapter leads there and the spaces differ"
                                    : "no probe with something to find has vectors by both generations",
                  TextOfOwn(pair));
  }
  std::string text =
      StrCat(on, ": its own queries reach CMC@1 ", Shown(pair.old_self.cmc1), ", mAP ", Shown(pair.old_self.map));
  for (const WayReport& way : pair.ways) {
    text += StrCat("; ", way.way == AdapterMode::kNone ? "plain distance" : StrCat(WayName(way.way), " adapter"),
                   way.in_reach ? "" : " (out of reach)", ": CMC@1 ", Shown(way.figures.cmc1), ", mAP ",
                   Shown(way.figures.map), ", gains ", Shown(way.cmc1_gain), " and ", Shown(way.map_gain),
                   TextOfMeasure(way));
  }
  text += "; ";
  switch (pair.verdict) {
    case Verdict::kPassed:
      text += StrCat(
          "passed by ",
          pair.chosen == AdapterMode::kNone ? "plain distance" : StrCat("its ", WayName(pair.chosen), " adapter"),
          HowRanked(pair),
          pair.every_item ? ", which carries every item: candidates of another way miss too much" : "");
      break;
    case Verdict::kWorse:
      text += "no way that is open finds them as well as their own generation does";
      break;
    case Verdict::kUncertain:
      text +=
          StrCat(pair.old_self.cmc1.samples, " probes are too few to exclude a loss beyond the tolerance: put more");
      break;
    default:
      text += "a partly backfilled gallery would fall below both its ends";
  }
  text += TextOfShares(pair) + TextOfBoth(pair) + TextOfOwn(pair);
  const uint64_t seen = std::min(pair.fitted_pairs, pair.common_items);
  if (seen > 0) {
    text += StrCat("; P_com and mixtures are of ", pair.common_items, " items that both embedded, up to ", seen,
                   " of them pairs that an adapter was fitted from: there they are better than elsewhere");
  }
  return text;
}

}  // namespace lightcone::server
