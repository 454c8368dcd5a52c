// Searches: by a vector, by a point, by examples; one or many.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/rest/fields.h"
#include "server/rest/point_vectors.h"
#include "server/rest/query_call.h"
#include "server/rest/verbs.h"

namespace lightcone::server::rest {
namespace {

using nlohmann::json;

constexpr int64_t kQueryLimit = 10;  // hits of a query that names no limit

absl::Status RefuseGroupParts(const Fields& body) {
  return body.Refuse("group_by", "use the path that ends in /groups");
}

absl::StatusOr<std::vector<std::string>> SearchOnce(const RestCall& call, const json& search, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(search, path));
  LC_RETURN_IF_ERROR(RefuseGroupParts(body));
  LC_ASSIGN_OR_RETURN(PointQuery query, PointQueryOf(call, body, /*limit_by_default=*/0));
  LC_RETURN_IF_ERROR(ReadSearchVector(call, body, &query));
  return RunPointQuery(call, &query);
}

absl::StatusOr<std::vector<std::string>> RecommendOnce(const RestCall& call, const json& search,
                                                       const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(search, path));
  LC_ASSIGN_OR_RETURN(PointQuery query, PointQueryOf(call, body, /*limit_by_default=*/0));
  LC_RETURN_IF_ERROR(ReadExamples(call, body, &query));
  return RunPointQuery(call, &query);
}

// A query without a query lists points by their ids, with a score of 0.
Answer ListPoints(const RestCall& call, const Fields& body, PointQuery query) {
  LC_RETURN_IF_ERROR(body.Whole("offset", 0, 0, 0).status());
  const int64_t items_max = call.engine.options().limits.page_items_max;
  LC_ASSIGN_OR_RETURN(const int64_t limit, body.Whole("limit", kQueryLimit, 1, items_max));
  LC_RETURN_IF_ERROR(FindVectorGeneration(call, &query.parts));
  LC_ASSIGN_OR_RETURN(ScrollPage page,
                      call.engine.Scroll(call.collection(), query.search.filter, limit, "",
                                         ItemParts(query.parts.vector, query.parts.selection), call.context));
  std::vector<std::string> points;
  for (StoredItem& item : page.items) {
    EngineHit hit;
    hit.id = std::move(item.id);
    hit.payload_json = std::move(item.payload_json);
    hit.vector = std::move(item.vector);
    hit.generation = item.generation;
    hit.uncertainty = item.uncertainty;
    points.push_back(ScoredPointText(hit, 0, query.parts));
  }
  return StrCat("{\"points\":", ListText(points), "}");
}

Answer QueryOnce(const RestCall& call, const json& given, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(given, path));
  LC_RETURN_IF_ERROR(RefuseGroupParts(body));
  LC_ASSIGN_OR_RETURN(PointQuery query, PointQueryOf(call, body, kQueryLimit));
  const json* asked = body.Find("query");
  if (asked == nullptr) return ListPoints(call, body, std::move(query));
  LC_RETURN_IF_ERROR(ReadPointQuery(call, *asked, body.At("query"), &query));
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> points, RunPointQuery(call, &query));
  return StrCat("{\"points\":", ListText(points), ExtrasText(query), "}");
}

// The answers to the array "searches", each by `search_once`. An error of one is an error of all, as at Qdrant.
template <typename SearchFunction>
Answer Batch(const RestCall& call, const SearchFunction& search_once) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_ASSIGN_OR_RETURN(const json* const searches, body.Require("searches", "an array of searches"));
  if (!searches->is_array()) return InvalidField("searches", ShownJson(*searches), "an array of searches");
  LC_ASSIGN_OR_RETURN(const CollectionStatus status, call.engine.GetCollection(call.collection()));
  const uint32_t strict = status.strict_mode.Bound(&StrictMode::queries_max);
  const int64_t server_most = call.engine.options().limits.queries_max;
  const int64_t most = strict > 0 ? std::min<int64_t>(strict, server_most) : server_most;
  if (static_cast<int64_t>(searches->size()) > most) {
    return InvalidField("searches", StrCat(searches->size(), " long"), StrCat("at most ", most));
  }
  const int64_t bytes_max = call.context.answer_bytes_max;
  int64_t bytes = 0;
  std::vector<std::string> answers;
  for (size_t i = 0; i < searches->size(); ++i) {
    LC_ASSIGN_OR_RETURN(std::string one, search_once((*searches)[i], StrCat("searches[", i, "]")));
    bytes += static_cast<int64_t>(one.size());
    if (bytes_max > 0 && bytes > bytes_max) {
      return ResourceExhausted(StrCat("the answer has more than ", bytes_max, " bytes; ask for fewer searches"));
    }
    answers.push_back(std::move(one));
  }
  return ListText(answers);
}

}  // namespace

Answer SearchPoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> points, SearchOnce(call, call.body, ""));
  return ListText(points);
}

Answer SearchPointsBatch(const RestCall& call) {
  return Batch(call, [&](const json& search, const std::string& path) -> Answer {
    LC_ASSIGN_OR_RETURN(const std::vector<std::string> points, SearchOnce(call, search, path));
    return ListText(points);
  });
}

Answer QueryPoints(const RestCall& call) { return QueryOnce(call, call.body, ""); }

Answer QueryPointsBatch(const RestCall& call) {
  return Batch(call, [&](const json& search, const std::string& path) { return QueryOnce(call, search, path); });
}

Answer RecommendPoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> points, RecommendOnce(call, call.body, ""));
  return ListText(points);
}

Answer RecommendPointsBatch(const RestCall& call) {
  return Batch(call, [&](const json& search, const std::string& path) -> Answer {
    LC_ASSIGN_OR_RETURN(const std::vector<std::string> points, RecommendOnce(call, search, path));
    return ListText(points);
  });
}

}  // namespace lightcone::server::rest
