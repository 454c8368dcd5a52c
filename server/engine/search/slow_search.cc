#include "server/engine/search/slow_search.h"

#include <map>
#include <set>
#include <utility>

#include "base/strings.h"

namespace lightcone::server {
namespace {

constexpr size_t kNamedMax = 16;  // legs, and fields of the filter, that a line names

std::string_view PlanName(SearchPlan plan) {
  switch (plan) {
    case SearchPlan::kScan:
      return "scan";
    case SearchPlan::kPassingScan:
      return "scan of passing rows";
    case SearchPlan::kWalk:
      return "walk";
    case SearchPlan::kPassingWalk:
      return "walk over passing rows";
    case SearchPlan::kPostFilter:
      return "walk with post-filter";
    case SearchPlan::kProbe:
      return "probe";
  }
  return "unknown";
}

void AddFields(const FilterNode& node, std::set<std::string>* fields) {
  if (!node.field.empty()) fields->insert(node.field);
  for (const FilterNode& child : node.children) AddFields(child, fields);
}

// "a, b", and how many more there are. Names of fields may hold line breaks.
template <typename Texts>
std::string TextOfNamed(const Texts& texts) {
  std::string out;
  size_t named = 0;
  for (const std::string& text : texts) {
    if (named++ == kNamedMax) return StrCat(out, " and ", texts.size() - kNamedMax, " more");
    if (!out.empty()) out += ", ";
    for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out.empty() ? "none" : out;
}

}  // namespace

std::string SlowSearchLine(const SearchCall& call, const SearchAnswer& answer, absl::Duration took,
                           const TraceId& trace_id) {
  // Generations with their plans, over all queries: a line is to be read.
  std::map<uint32_t, std::map<std::string_view, size_t>> segments;
  int64_t scored = 0, refined = 0, reranked = 0;
  if (answer.profile.has_value()) {
    for (const LegProfile& leg : answer.profile->legs) {
      std::map<std::string_view, size_t>& plans = segments[leg.generation];
      for (const SegmentProfile& segment : leg.segments) ++plans[PlanName(segment.plan)];
      scored += leg.rows_scored;
      refined += leg.rows_refined;
      reranked += leg.rows_reranked;
    }
  }
  std::vector<std::string> legs;
  for (const auto& [generation, plans] : segments) {
    std::string leg = StrCat("generation ", generation);
    for (const auto& [plan, count] : plans) leg += StrCat(" ", plan, " x ", count);
    legs.push_back(std::move(leg));
  }
  std::set<std::string> fields;
  if (call.filter.has_value()) AddFields(*call.filter, &fields);
  return StrCat("slow search of collection '", call.collection, "': ", absl::ToInt64Milliseconds(took), " ms, ",
                call.queries.size(), " queries, k ", call.k, call.exact ? ", exact" : "", ", serving generation ",
                answer.serving_generation, "; legs: ", TextOfNamed(legs), "; rows scored ", scored, ", refined ",
                refined, ", reranked ", reranked, "; filter fields: ", TextOfNamed(fields),
                trace_id.empty() ? "" : "; trace ", trace_id.empty() ? "" : HexOf(trace_id));
}

}  // namespace lightcone::server
