#include "server/rest/query_call.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"
#include "geometry/metric.h"
#include "server/rest/point_filter.h"
#include "server/rest/point_vectors.h"

namespace lightcone::server {
namespace {

using nlohmann::json;

double ScoreOf(Metric metric, double distance) {
  if (metric == Metric::kCosine) return 1 - distance;
  return metric == Metric::kInnerProduct ? -distance : distance;
}

// The distance that a hit of the score has.
double DistanceOf(Metric metric, double score) { return ScoreOf(metric, score); }

absl::Status ReadParams(const RestCall& call, const Fields& body, SearchCall* search) {
  const json* given = body.Find("params");
  if (given == nullptr) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const Fields params, Fields::Of(*given, body.At("params")));
  LC_ASSIGN_OR_RETURN(search->exact, params.Flag("exact", false));
  LC_ASSIGN_OR_RETURN(const int64_t ef, params.Whole("hnsw_ef", 0, 0, call.engine.options().limits.ef_max));
  search->ef = search->exact ? 0 : static_cast<int>(ef);
  LC_ASSIGN_OR_RETURN(search->embed_older, params.Flag("embed_older", false));
  LC_ASSIGN_OR_RETURN(search->relevance_min, params.Number("relevance_min"));
  LC_ASSIGN_OR_RETURN(const int64_t scale,
                      params.Whole("scale_generation", 0, 0, std::numeric_limits<uint32_t>::max()));
  search->scale_generation = static_cast<uint32_t>(scale);
  LC_ASSIGN_OR_RETURN(search->refresh_top, params.Whole("refresh_top", 0, 0, std::numeric_limits<uint32_t>::max()));
  return absl::OkStatus();
}

// Points and vectors that are examples, as vectors of one generation.
class Examples {
 public:
  Examples(const RestCall& call, PointQuery* query) : call_(call), query_(query) {}

  absl::Status Read(const Fields& examples, const char* name, std::vector<std::vector<float>>* out) {
    const json* given = examples.Find(name);
    if (given == nullptr) return absl::OkStatus();
    if (!given->is_array()) return InvalidField(examples.At(name), ShownJson(*given), "an array of ids and vectors");
    std::vector<ItemId> ids;
    for (size_t i = 0; i < given->size(); ++i) {
      const json& one = (*given)[i];
      const std::string field = StrCat(examples.At(name), "[", i, "]");
      if (one.is_array()) {
        LC_ASSIGN_OR_RETURN(std::vector<float> vector, VectorFrom(one, field));
        out->push_back(std::move(vector));
      } else if (one.is_object()) {
        return NotSupported(field, "examples are ids and plain vectors");
      } else {
        LC_ASSIGN_OR_RETURN(ItemId id, PointIdFrom(one, field));
        ids.push_back(std::move(id));
      }
    }
    return ids.empty() ? absl::OkStatus() : Fetch(ids, examples.At(name), out);
  }

 private:
  absl::Status Fetch(const std::vector<ItemId>& ids, const std::string& field, std::vector<std::vector<float>>* out) {
    SearchCall& search = query_->search;
    if (search.generation == 0) {
      LC_ASSIGN_OR_RETURN(const CollectionStatus status, call_.engine.GetCollection(search.collection));
      search.generation = status.active_generation;
    }
    LC_ASSIGN_OR_RETURN(GetAnswer found,
                        call_.engine.Get(search.collection, ids, search.generation, ItemParts(true), call_.context));
    if (!found.missing.empty()) {
      return NotFound(
          StrCat(field, ": point ", PointIdText(found.missing[0]), " has no vector of generation ", search.generation));
    }
    for (StoredItem& item : found.items) {
      query_->left_out.push_back(item.id);
      out->push_back(std::move(item.vector));
    }
    return absl::OkStatus();
  }

  const RestCall& call_;
  PointQuery* const query_;
};

// Under the cosine metric each vector counts by its direction alone.
absl::StatusOr<std::vector<double>> MeanOf(const std::vector<std::vector<float>>& vectors, Metric metric,
                                           const std::string& field) {
  std::vector<double> mean(vectors[0].size());
  for (const std::vector<float>& vector : vectors) {
    if (vector.size() != mean.size()) {
      return InvalidField(field, StrCat("with vectors of ", vector.size(), " and ", mean.size(), " numbers"),
                          "vectors of one length");
    }
    const double length = metric == Metric::kCosine ? NormOf(vector) : 1;
    if (length == 0) return InvalidField(field, "with a vector of zeros", "vectors that have a direction");
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += vector[i] / length / static_cast<double>(vectors.size());
  }
  return mean;
}

}  // namespace

absl::StatusOr<PointQuery> PointQueryOf(const RestCall& call, const Fields& body, int64_t limit_by_default) {
  for (const auto& [name, why] : {std::pair("shard_key", "there are no shards"),
                                  std::pair("lookup_from", "points of other collections are no queries"),
                                  std::pair("prefetch", "a query has one step"),
                                  std::pair("with_lookup", "points of other collections are not shown")}) {
    LC_RETURN_IF_ERROR(body.Refuse(name, why));
  }
  PointQuery query;
  SearchCall& search = query.search;
  const Limits& limits = call.engine.options().limits;
  search.collection = call.collection();
  LC_ASSIGN_OR_RETURN(search.generation, call.QueryGeneration());
  if (limit_by_default == 0) LC_RETURN_IF_ERROR(body.Require("limit", StrCat("1 .. ", limits.k_max)).status());
  LC_ASSIGN_OR_RETURN(search.k, body.Whole("limit", limit_by_default, 1, limits.k_max));
  LC_ASSIGN_OR_RETURN(search.offset, body.Whole("offset", 0, 0, limits.k_max - search.k));
  LC_ASSIGN_OR_RETURN(search.filter, PointFilterOf(call, body));
  LC_RETURN_IF_ERROR(ReadParams(call, body, &search));
  LC_ASSIGN_OR_RETURN(query.score_threshold, body.Number("score_threshold"));
  LC_ASSIGN_OR_RETURN(query.parts, PointPartsOf(body, /*payload_by_default=*/false));
  LC_ASSIGN_OR_RETURN(const std::string name, body.Text("using"));
  LC_RETURN_IF_ERROR(UseGeneration(call, name, body.At("using"), &query));
  return query;
}

absl::Status UseGeneration(const RestCall& call, const std::string& name, std::string_view field, PointQuery* query) {
  LC_ASSIGN_OR_RETURN(const uint32_t generation, GenerationNames(&call.engine, call.collection()).Find(name, field));
  if (generation == 0) return absl::OkStatus();
  uint32_t& chosen = query->search.generation;
  if (chosen != 0 && chosen != generation) {
    return InvalidField(field, ShownJson(name),
                        StrCat("a vector of generation ", chosen, ", which the call names, too"));
  }
  chosen = generation;
  return absl::OkStatus();
}

absl::Status ReadSearchVector(const RestCall& call, const Fields& body, PointQuery* query) {
  LC_ASSIGN_OR_RETURN(const json* const given, body.Require("vector", "an array of numbers, or {name, vector}"));
  query->search.queries.emplace_back();
  Query& out = query->search.queries.back();
  const std::string field = body.At("vector");
  if (given->is_object() && given->contains("name") && given->contains("vector")) {
    LC_ASSIGN_OR_RETURN(const Fields named, Fields::Of(*given, field));
    LC_ASSIGN_OR_RETURN(const std::string name, named.Text("name"));
    if ((*given)["vector"].is_object()) return NotSupported(named.At("vector"), "there are no sparse vectors");
    LC_ASSIGN_OR_RETURN(std::vector<float> vector, VectorFrom((*given)["vector"], named.At("vector")));
    out.content = std::move(vector);
    return UseGeneration(call, name, named.At("name"), query);
  }
  LC_ASSIGN_OR_RETURN(std::vector<float> vector, VectorFrom(*given, field));
  out.content = std::move(vector);
  return absl::OkStatus();
}

absl::Status ReadExamples(const RestCall& call, const Fields& examples, PointQuery* query) {
  LC_ASSIGN_OR_RETURN(const std::string strategy, examples.Text("strategy"));
  if (!strategy.empty() && strategy != "average_vector") {
    return NotSupported(examples.At("strategy"), "there is average_vector alone");
  }
  LC_ASSIGN_OR_RETURN(const CollectionStatus status, call.engine.GetCollection(call.collection()));
  Examples read(call, query);
  std::vector<std::vector<float>> positive, negative;
  LC_RETURN_IF_ERROR(read.Read(examples, "positive", &positive));
  LC_RETURN_IF_ERROR(read.Read(examples, "negative", &negative));
  if (positive.empty()) return InvalidField(examples.At("positive"), "empty", "at least one id or vector");
  LC_ASSIGN_OR_RETURN(std::vector<double> sum, MeanOf(positive, status.metric, examples.At("positive")));
  if (!negative.empty()) {
    LC_ASSIGN_OR_RETURN(const std::vector<double> away, MeanOf(negative, status.metric, examples.At("negative")));
    if (away.size() != sum.size()) {
      return InvalidField(examples.At("negative"), StrCat("with vectors of ", away.size(), " numbers"),
                          StrCat(sum.size(), ", as those of positive"));
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = 2 * sum[i] - away[i];
  }
  query->search.queries.emplace_back();
  query->search.queries.back().content = std::vector<float>(sum.begin(), sum.end());
  query->search.queries.back().is_computed = true;
  return absl::OkStatus();
}

std::string HitText(Metric metric, const EngineHit& hit, const PointParts& parts) {
  return ScoredPointText(hit, ScoreOf(metric, hit.scaled_distance.value_or(hit.distance)), parts);
}

std::string ExtrasText(const PointQuery& query) {
  std::string older;
  if (!query.older_error.empty()) older = ",\"older_error\":" + TextOfJson(json(query.older_error));
  if (!query.warnings.empty()) older += ",\"warnings\":" + TextOfJson(json(query.warnings));
  if (query.scale_generation != 0) older += StrCat(",\"scale_generation\":", query.scale_generation);
  if (!query.unscaled.empty()) older += ",\"unscaled_generations\":" + TextOfJson(json(query.unscaled));
  if (!query.refresh) return older;
  const SearchRefresh& refresh = *query.refresh;
  const json shown = {{"candidates", refresh.candidates},
                      {"refreshed", refresh.refreshed},
                      {"without_input", refresh.without_input},
                      {"late", refresh.late},
                      {"over_budget", refresh.over_budget},
                      {"failed", refresh.failed},
                      {"changed", refresh.changed},
                      {"error", refresh.error}};
  return older + ",\"refresh\":" + TextOfJson(shown);
}

absl::StatusOr<QueryAnswer> AnswerPointQuery(const RestCall& call, PointQuery* query, Metric* metric) {
  SearchCall& search = query->search;
  LC_ASSIGN_OR_RETURN(const CollectionStatus status, call.engine.GetCollection(search.collection));
  *metric = status.metric;
  if (query->score_threshold) search.distance_max = DistanceOf(status.metric, *query->score_threshold);
  search.with_payload = query->parts.payload;
  if (query->parts.payload) search.payload = query->parts.selection;
  search.with_vector = query->parts.vector || query->diversity.has_value();
  LC_RETURN_IF_ERROR(FindVectorGeneration(call, &query->parts));
  LC_ASSIGN_OR_RETURN(SearchAnswer answer, call.engine.Search(search, call.context));
  if (answer.results.size() != 1) return Internal("a search of one query without an answer");
  QueryAnswer& found = answer.results[0];
  LC_RETURN_IF_ERROR(found.status);
  query->refresh = std::move(answer.refresh);
  query->older_error = std::move(answer.older_error);
  query->warnings = std::move(answer.warnings);
  query->scale_generation = answer.scale_generation;
  query->unscaled = std::move(answer.unscaled);
  return std::move(found);
}

absl::StatusOr<std::vector<std::string>> RunPointQuery(const RestCall& call, PointQuery* given) {
  PointQuery& query = *given;
  SearchCall& search = query.search;
  const auto wanted = static_cast<size_t>(search.k);
  const auto offset = static_cast<ptrdiff_t>(search.offset);
  const auto left_out = std::ssize(query.left_out);
  int64_t k_max = call.engine.options().limits.k_max;
  // Hits that are dropped afterwards are asked for on top.
  if (query.diversity || left_out > 0) {
    const int64_t least = search.k + search.offset + left_out;
    if (query.diversity && least > Diversity::kCandidatesMax) {
      return InvalidField("limit", StrCat(search.k, " after an offset of ", search.offset),
                          StrCat("at most ", Diversity::kCandidatesMax, " together with mmr"));
    }
    const int64_t candidates = query.diversity ? query.diversity->candidates : 0;
    LC_ASSIGN_OR_RETURN(const CollectionStatus status, call.engine.GetCollection(search.collection));
    // Strict mode refuses what the caller asks for, not what is asked for on top.
    const uint32_t strict = status.strict_mode.Bound(&StrictMode::k_max);
    if (strict > 0) k_max = std::min(k_max, std::max<int64_t>(strict, search.k + search.offset));
    search.k = std::min(k_max, std::max(candidates, least));
    search.offset = 0;
  }
  Metric metric{};
  LC_ASSIGN_OR_RETURN(QueryAnswer answer, AnswerPointQuery(call, &query, &metric));
  std::vector<EngineHit>& hits = answer.hits;
  std::erase_if(hits, [&](const EngineHit& hit) {
    return std::find(query.left_out.begin(), query.left_out.end(), hit.id) != query.left_out.end();
  });
  if (query.diversity) {
    if (metric == Metric::kLorentz) return NotSupported("query.mmr", "the metric lorentz has no similarity");
    const size_t chosen = wanted + static_cast<size_t>(offset);
    LC_ASSIGN_OR_RETURN(hits, Diversified(metric, std::move(hits), query.diversity->weight, chosen));
  }
  if (search.offset == 0) hits.erase(hits.begin(), hits.begin() + std::min(offset, std::ssize(hits)));
  if (hits.size() > wanted) hits.resize(wanted);
  std::vector<std::string> points;
  points.reserve(hits.size());
  for (const EngineHit& hit : hits) points.push_back(HitText(metric, hit, query.parts));
  return points;
}

}  // namespace lightcone::server
