// Searches as Qdrant writes them, as calls of the engine, and their answers. Threads: a PointQuery belongs to one call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/rest/diversity.h"
#include "server/rest/fields.h"
#include "server/rest/point_text.h"
#include "server/rest/rest_call.h"

namespace lightcone::server {

// One search of a body, without its collection's metric.
struct PointQuery {
  SearchCall search;  // one query; `k` is what is asked for
  PointParts parts;
  std::optional<double> score_threshold;  // as Qdrant's clients mean it
  std::vector<ItemId> left_out;           // points that the query is made of
  std::optional<Diversity> diversity;     // how unlike each other the hits are wanted
  std::optional<SearchRefresh> refresh;   // what the answer says of params.refresh_top
  std::string older_error;                // what it says of params.embed_older
  std::vector<std::string> warnings;      // what it says of the query's model
  uint32_t scale_generation = 0;          // generation whose distances scores come from; 0: each hit's own
  std::vector<uint32_t> unscaled;         // SearchAnswer::unscaled
};

// Reads everything but the query itself: filter, limit, offset, params, score_threshold and the parts of the hits. The
// limit is `limit_by_default` where the body has none; 0: it must have one.
absl::StatusOr<PointQuery> PointQueryOf(const RestCall& call, const Fields& body, int64_t limit_by_default);

// The query "vector" of a search: [numbers], {"name", "vector"}.
absl::Status ReadSearchVector(const RestCall& call, const Fields& body, PointQuery* query);
// The generation that a vector's name or "using" means. INVALID_ARGUMENT where two mean different ones.
absl::Status UseGeneration(const RestCall& call, const std::string& name, std::string_view field, PointQuery* query);
// A query made of points and vectors: twice the mean of the positive ones less the mean of the negative ones, or the
// mean of the positive ones alone.
absl::Status ReadExamples(const RestCall& call, const Fields& examples, PointQuery* query);

// The member "query" of a body: an id, a vector, a text, nearest, or recommend.
absl::Status ReadPointQuery(const RestCall& call, const nlohmann::json& given, const std::string& field,
                            PointQuery* query);

// What the engine answers. `metric` becomes the collection's.
absl::StatusOr<QueryAnswer> AnswerPointQuery(const RestCall& call, PointQuery* query, Metric* metric);
// A hit with its score by the metric.
std::string HitText(Metric metric, const EngineHit& hit, const PointParts& parts);

// "refresh" and "older_error" beside the points, where the parameters of a query ask for them, and "warnings" where
// there are any.
std::string ExtrasText(const PointQuery& query);

// The hits, each with its score: the cosine, the dot product, or the distance.
absl::StatusOr<std::vector<std::string>> RunPointQuery(const RestCall& call, PointQuery* query);

}  // namespace lightcone::server
