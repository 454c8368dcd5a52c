#include "cli/commands/search_profile.h"

#include "base/strings.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

std::string PlanName(v1::SearchPlan plan) {
  switch (plan) {
    case v1::SEARCH_PLAN_SCAN:
      return "scan";
    case v1::SEARCH_PLAN_PASSING_SCAN:
      return "passing scan";
    case v1::SEARCH_PLAN_WALK:
      return "walk";
    case v1::SEARCH_PLAN_PASSING_WALK:
      return "passing walk";
    case v1::SEARCH_PLAN_POST_FILTER:
      return "post-filter";
    case v1::SEARCH_PLAN_PROBE:
      return "probe";
    default:
      return "unknown";
  }
}

std::string Listed(const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += StrCat(text.empty() ? "" : ", ", name);
  return text;
}

}  // namespace

OrderedJson ProfileJson(const v1::SearchProfile& profile) {
  OrderedJson json;
  json["legs"] = OrderedJson::array();
  for (const auto& leg : profile.legs()) {
    OrderedJson segments = OrderedJson::array();
    for (const auto& segment : leg.segments()) {
      segments.push_back({{"id", segment.id()},
                          {"plan", PlanName(segment.plan())},
                          {"rows", segment.rows()},
                          {"passing_share", segment.passing_share()},
                          {"fell_back", segment.fell_back()},
                          {"breadth", segment.breadth()},
                          {"breadth_reason", segment.breadth_reason()}});
    }
    json["legs"].push_back({{"query", leg.query()},
                            {"generation", leg.generation()},
                            {"rows_scored", leg.rows_scored()},
                            {"rows_refined", leg.rows_refined()},
                            {"rows_reranked", leg.rows_reranked()},
                            {"rows_adapted", leg.rows_adapted()},
                            {"fused", leg.fused()},
                            {"older_weight", leg.older_weight()},
                            {"conditioned", leg.conditioned()},
                            {"segments", std::move(segments)}});
  }
  json["indexed_fields"] = OrderedJson::array();
  for (const std::string& field : profile.indexed_fields()) json["indexed_fields"].push_back(field);
  json["unindexed_fields"] = OrderedJson::array();
  for (const std::string& field : profile.unindexed_fields()) json["unindexed_fields"].push_back(field);
  json["compile_ms"] = profile.compile_ms();
  json["payloads_read"] = profile.payloads_read();
  return json;
}

std::string ProfileText(const v1::SearchProfile& profile) {
  Table table({"query", "generation", "segment", "plan", "breadth", "rows", "passing", "scored"});
  for (const auto& leg : profile.legs()) {
    bool first = true;
    for (const auto& segment : leg.segments()) {
      table.Add({StrCat(leg.query()), StrCat(leg.generation()), StrCat(segment.id()),
                 StrCat(PlanName(segment.plan()), segment.fell_back() ? ", then a scan" : ""),
                 segment.breadth() == 0 ? segment.breadth_reason()
                                        : StrCat(segment.breadth(), " (", segment.breadth_reason(), ")"),
                 Grouped(segment.rows()), Number(segment.passing_share()), first ? Grouped(leg.rows_scored()) : ""});
      first = false;
    }
    if (first) {
      table.Add({StrCat(leg.query()), StrCat(leg.generation()), "all", "every row carried", "", "", "",
                 Grouped(leg.rows_scored() + leg.rows_adapted())});
    }
  }
  std::string text = table.empty() ? "" : table.Text();
  for (const auto& leg : profile.legs()) {
    if (leg.older_weight() == 0) continue;
    text += StrCat("query ", leg.query(), ", items of generation ", leg.generation(), ": ranked by ",
                   leg.fused() ? StrCat("both vectors, the older one's weight ", Number(leg.older_weight()),
                                        leg.conditioned() ? ", conditioned" : "")
                               : "the older vector alone",
                   "\n");
  }
  if (profile.indexed_fields_size() > 0) {
    text += StrCat("answered by payload index: ", Listed(profile.indexed_fields()), " (", Number(profile.compile_ms()),
                   " ms)\n");
  }
  if (profile.unindexed_fields_size() > 0) {
    text += StrCat("no payload index, or none that is ready: ", Listed(profile.unindexed_fields()), "; ",
                   Grouped(profile.payloads_read()), " payloads were read\n");
  } else if (profile.payloads_read() > 0) {
    text += StrCat(Grouped(profile.payloads_read()), " payloads were read: values of another type than the index's\n");
  }
  return text;
}

}  // namespace lightcone::cli
