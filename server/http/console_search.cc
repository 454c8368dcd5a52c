#include "server/http/console_search.h"

#include <charconv>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "base/json_depth.h"
#include "base/status.h"
#include "server/http/console_json.h"
#include "server/http/picture.h"

namespace lightcone::server {
namespace {

using nlohmann::json;

constexpr int64_t kHitsMax = 200;

std::string Parameter(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

absl::StatusOr<int64_t> Whole(const HttpRequest& request, const std::string& name, int64_t fallback, int64_t max) {
  const std::string text = Parameter(request, name);
  if (text.empty()) return fallback;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > max) {
    return InvalidField(name, StrCat("'", text.substr(0, 40), "'"), StrCat("0 .. ", max));
  }
  return value;
}

absl::StatusOr<Query> QueryFrom(const HttpRequest& request) {
  Query query;
  const auto type = request.headers.find("content-type");
  if (type != request.headers.end() && type->second.rfind("image/", 0) == 0) {
    query.content = RawInput(request.body);
    return query;
  }
  if (JsonNestsDeeper(request.body, 4)) return InvalidField("body", "nested too deeply", "4 levels");
  const json body = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object())
    return InvalidField("body", "no JSON object", "a JSON object, or an image under its Content-Type");
  if (body.contains("item")) {
    LC_ASSIGN_OR_RETURN(ItemId id, ItemIdFrom(body["item"], "item"));
    query.content = QueryByItem{std::move(id)};
    return query;
  }
  if (!body.contains("vector") || !body["vector"].is_array()) {
    return InvalidField("body", "without vector and item", "{\"vector\": [numbers]} or {\"item\": id}");
  }
  std::vector<float> vector;
  for (const json& number : body["vector"]) {
    if (!number.is_number()) return InvalidField(StrCat("vector[", vector.size(), "]"), "no number", "a number");
    vector.push_back(number.get<float>());
  }
  query.content = std::move(vector);
  return query;
}

// What each generation contributed, and how queries reach it.
absl::StatusOr<json> LegsOf(Engine& engine, const std::string& collection, const SearchAnswer& answer) {
  LC_ASSIGN_OR_RETURN(const GenerationStatus serving, engine.GetGeneration(collection, answer.serving_generation));
  LC_ASSIGN_OR_RETURN(const std::vector<AdapterStatus> adapters, engine.ListAdapters(collection));
  LC_ASSIGN_OR_RETURN(const CollectionStatus status, engine.GetCollection(collection));
  json legs = json::array();
  for (const auto& [generation, items] : status.items_by_generation) {
    int64_t hits = 0;
    double uncertainty = 0;
    for (const EngineHit& hit : answer.results[0].hits) {
      if (hit.generation != generation) continue;
      ++hits;
      uncertainty += hit.uncertainty;
    }
    const bool reached = std::find(serving.reach.begin(), serving.reach.end(), generation) != serving.reach.end();
    std::string way = generation == serving.generation ? "its own" : reached ? "compatible training" : "out of reach";
    for (const AdapterStatus& adapter : adapters) {
      const bool query = adapter.from == serving.generation && adapter.to == generation;
      const bool item = adapter.from == generation && adapter.to == serving.generation;
      if (query || item) way = query ? "a query adapter" : "an item adapter";
    }
    legs.push_back({{"generation", generation},
                    {"items", items},
                    {"hits", hits},
                    {"uncertainty", hits == 0 ? json() : json(uncertainty / static_cast<double>(hits))},
                    {"way", way}});
  }
  return legs;
}

}  // namespace

absl::StatusOr<json> SearchFromConsole(Engine& engine, const std::string& collection, const HttpRequest& request,
                                       const CallContext& context) {
  SearchCall call;
  call.collection = collection;
  LC_ASSIGN_OR_RETURN(call.k, Whole(request, "k", 12, kHitsMax));
  LC_ASSIGN_OR_RETURN(const int64_t ef, Whole(request, "ef", 0, engine.options().limits.ef_max));
  LC_ASSIGN_OR_RETURN(const int64_t generation, Whole(request, "generation", 0, UINT32_MAX));
  call.ef = static_cast<int>(ef);
  call.generation = static_cast<uint32_t>(generation);
  call.exact = Parameter(request, "exact") == "1";
  call.with_payload = true;
  LC_ASSIGN_OR_RETURN(Query query, QueryFrom(request));
  call.queries.push_back(std::move(query));
  const absl::Time began = absl::Now();
  LC_ASSIGN_OR_RETURN(const SearchAnswer answer, engine.Search(call, context));
  const absl::Duration took = absl::Now() - began;
  if (answer.results.size() != 1) return Internal("a search of one query without an answer");
  LC_RETURN_IF_ERROR(answer.results[0].status);
  std::vector<ItemId> ids;
  for (const EngineHit& hit : answer.results[0].hits) ids.push_back(hit.id);
  std::set<ItemId> with_input;
  if (!ids.empty()) {
    LC_ASSIGN_OR_RETURN(const GetAnswer stored, engine.Get(collection, ids, 0, /*with_vector=*/false, context));
    for (const StoredItem& item : stored.items) {
      if (item.has_input) with_input.insert(item.id);
    }
  }
  json hits = json::array();
  for (const EngineHit& hit : answer.results[0].hits) {
    json one = ToJson(hit);
    one["has_input"] = with_input.contains(hit.id);
    hits.push_back(std::move(one));
  }
  LC_ASSIGN_OR_RETURN(json legs, LegsOf(engine, collection, answer));
  return json{{"hits", std::move(hits)},
              {"legs", std::move(legs)},
              {"serving_generation", answer.serving_generation},
              {"out_of_reach", answer.out_of_reach},
              {"partial", answer.partial},
              {"milliseconds", absl::ToDoubleMilliseconds(took)}};
}

absl::StatusOr<HttpAnswer> StoredPicture(Engine& engine, const std::string& collection, const HttpRequest& request) {
  json id = json::object();
  for (const char* key : {"number", "name"}) {
    if (request.query.contains(key)) id[key] = Parameter(request, key);
  }
  LC_ASSIGN_OR_RETURN(const ItemId item, ItemIdFrom(id, "item"));
  LC_ASSIGN_OR_RETURN(const RawInput input, engine.GetInput(collection, item));
  LC_ASSIGN_OR_RETURN(Picture picture, PictureOf(input));
  return HttpAnswer{200, std::move(picture.type), std::move(picture.bytes)};
}

}  // namespace lightcone::server
