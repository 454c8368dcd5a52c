// What a query is: a vector, a point, examples.
#include <utility>

#include "base/status.h"
#include "server/rest/point_vectors.h"
#include "server/rest/query_call.h"

namespace lightcone::server {
namespace {

using nlohmann::json;

// "nearest": an id, a vector, or a text.
absl::Status ReadNearest(const RestCall& call, const json& nearest, const std::string& field, PointQuery* query) {
  Query one;
  if (nearest.is_number() || nearest.is_string()) {
    LC_ASSIGN_OR_RETURN(ItemId id, PointIdFrom(nearest, field));
    one.content = QueryByItem{std::move(id)};
  } else {
    LC_ASSIGN_OR_RETURN(NamedVector named, NamedVectorFrom(nearest, field));
    LC_RETURN_IF_ERROR(UseGeneration(call, named.name, field, query));
    one.content = std::visit([](auto& content) { return decltype(one.content)(std::move(content)); }, named.content);
  }
  query->search.queries.push_back(std::move(one));
  return absl::OkStatus();
}

// "mmr" beside "nearest".
absl::Status ReadDiversity(const Fields& fields, PointQuery* query) {
  const json* given = fields.Find("mmr");
  if (given == nullptr) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const Fields mmr, Fields::Of(*given, fields.At("mmr")));
  Diversity& diversity = query->diversity.emplace();
  LC_ASSIGN_OR_RETURN(const std::optional<double> weight, mmr.Number("diversity"));
  diversity.weight = weight.value_or(diversity.weight);
  if (!(diversity.weight >= 0 && diversity.weight <= 1)) {
    return InvalidField(mmr.At("diversity"), StrCat(diversity.weight), "0 .. 1");
  }
  LC_ASSIGN_OR_RETURN(diversity.candidates, mmr.Whole("candidates_limit", 0, 1, Diversity::kCandidatesMax));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadPointQuery(const RestCall& call, const json& given, const std::string& field, PointQuery* query) {
  if (!given.is_object() || given.contains("text") || given.contains("indices")) {
    return ReadNearest(call, given, field, query);
  }
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(given, field));
  if (const json* nearest = fields.Find("nearest")) {
    LC_RETURN_IF_ERROR(ReadDiversity(fields, query));
    return ReadNearest(call, *nearest, fields.At("nearest"), query);
  }
  if (const json* examples = fields.Find("recommend")) {
    LC_ASSIGN_OR_RETURN(const Fields parts, Fields::Of(*examples, fields.At("recommend")));
    return ReadExamples(call, parts, query);
  }
  for (const auto& [name, why] :
       {std::pair("fusion", "rankings are fused by generations alone"),
        std::pair("rrf", "rankings are fused by generations alone"),
        std::pair("formula", "scores are those of the distance"), std::pair("sample", "there are no random samples"),
        std::pair("discover", "there are no searches by context"),
        std::pair("context", "there are no searches by context"),
        std::pair("relevance_feedback", "there are no searches by feedback"),
        std::pair("order_by", "scroll lists points in an order")}) {
    LC_RETURN_IF_ERROR(fields.Refuse(name, why));
  }
  return InvalidField(field, "without a known member", "an id, a vector, nearest, recommend");
}

}  // namespace lightcone::server
