// Any text as the body of a call of REST, which the first byte chooses. The engine is a stand-in: it holds what it gets
// to what the verbs promise, and answers with points that have every part. An answer is JSON, and nothing is thrown.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/payload_patch.h"
#include "server/rest/endpoints.h"
#include "server/rest/json_body.h"
#include "server/rest/rest_api.h"
#include "tests/rpc/fake_engine.h"

namespace {

using namespace lightcone;          // NOLINT: a program of one file
using namespace lightcone::server;  // NOLINT

constexpr char kPayload[] = R"({"a":{"b":[1,2.5,"x y",true,{"c":{"lon":8,"lat":47}}]},"t":"2024-05-01T12:30:00Z"})";
constexpr uint32_t kGeneration = 1;

// What a filter, once it is taken, says of a payload: only that it ends.
absl::Status Try(const std::optional<FilterNode>& node) {
  if (!node) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const Filter filter, Filter::Make(*node));
  const std::string payload = kPayload;
  const ItemId id{uint64_t{7}};
  (void)filter.Matches({&payload, kGeneration, 0.5, &id});
  return absl::OkStatus();
}

StoredItem ItemOf(const ItemId& id) {
  StoredItem item;
  item.id = id;
  item.payload_json = kPayload;
  item.generation = kGeneration;
  item.vector = {0.6F, 0.8F};
  item.expires = absl::UnixEpoch();
  return item;
}

EngineHit HitOf(uint64_t id) {
  EngineHit hit;
  hit.id = ItemId{id};
  hit.payload_json = kPayload;
  hit.generation = kGeneration;
  hit.vector = {0.6F, 0.8F};
  hit.relevance = 0.5;
  return hit;
}

void CheckFinite(const std::vector<float>& vector) {
  if (!std::all_of(vector.begin(), vector.end(), [](float x) { return std::isfinite(x); })) std::abort();
}

class Points final : public FakeEngine {
 public:
  absl::StatusOr<std::vector<GenerationStatus>> ListGenerations(const std::string&) override {
    return std::vector<GenerationStatus>{Generation()};
  }
  absl::StatusOr<GenerationStatus> GetGeneration(const std::string&, uint32_t) override { return Generation(); }
  absl::StatusOr<CollectionStatus> GetCollection(const std::string& name) override {
    CollectionStatus status;
    status.name = name;
    status.metric = Metric::kCosine;
    status.active_generation = kGeneration;
    return status;
  }
  absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext&) override {
    if (batch.items.empty() || batch.items.size() > static_cast<size_t>(options().limits.batch_items_max)) std::abort();
    for (const UpsertItem& item : batch.items) {
      if (const auto* vector = std::get_if<std::vector<float>>(&item.content)) CheckFinite(*vector);
      if (!item.payload_json.empty() && !nlohmann::json::accept(item.payload_json)) std::abort();
      if (item.ttl_ms && (*item.ttl_ms < 0 || *item.ttl_ms > kTtlMaxMs)) std::abort();
      const auto* name = std::get_if<std::string>(&item.id.value);
      if (name != nullptr && name->size() != 36) std::abort();  // only UUIDs are names
    }
    return WriteResult{.sequence = 1};
  }
  absl::StatusOr<GetAnswer> Get(const std::string&, const std::vector<ItemId>& ids, uint32_t, const ItemParts&,
                                const CallContext&) override {
    GetAnswer answer;
    for (const ItemId& id : ids) answer.items.push_back(ItemOf(id));
    return answer;
  }
  absl::StatusOr<DeleteByFilterAnswer> DeleteByFilter(const DeleteByFilterCall& call, const CallContext&) override {
    LC_RETURN_IF_ERROR(Try(call.filter));
    return DeleteByFilterAnswer{};
  }
  absl::StatusOr<ChangePayloadAnswer> ChangePayload(const ChangePayloadCall& call, const CallContext&) override {
    LC_RETURN_IF_ERROR(Try(call.filter));
    const int64_t bytes_max = options().limits.payload_bytes_max;
    LC_ASSIGN_OR_RETURN(const PayloadPatch patch, PayloadPatch::Make(call, bytes_max));
    LC_ASSIGN_OR_RETURN(const std::string changed, patch.Of(ItemId{uint64_t{7}}, kPayload));
    if (!nlohmann::json::accept(changed) || changed.size() > static_cast<size_t>(bytes_max)) std::abort();
    return ChangePayloadAnswer{};
  }
  absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext&) override {
    if (call.queries.size() != 1 || call.k < 0 || call.offset < 0) std::abort();
    const Query& query = call.queries[0];
    const auto* vector = std::get_if<std::vector<float>>(&query.content);
    if (vector != nullptr && !query.is_computed) CheckFinite(*vector);  // The engine refuses means that are too long.
    LC_RETURN_IF_ERROR(Try(call.filter));
    SearchAnswer answer;
    QueryAnswer& found = answer.results.emplace_back();
    if (call.group_by) {
      found.groups.push_back({.value = true, .hits = {HitOf(7)}});
    } else {
      found.hits = {HitOf(7), HitOf(8), HitOf(9)};
    }
    return answer;
  }
  absl::StatusOr<ScrollPage> Scroll(const std::string&, const std::optional<FilterNode>& filter, int64_t page_size,
                                    const std::string&, const ItemParts&, const CallContext&) override {
    if (page_size < 1 || page_size > options().limits.page_items_max) std::abort();
    LC_RETURN_IF_ERROR(Try(filter));
    ScrollPage page;
    page.items.push_back(ItemOf(ItemId{uint64_t{7}}));
    page.token = "more";
    return page;
  }
  absl::StatusOr<ScrollPage> ScrollOrdered(const std::string&, const OrderBy&, const std::optional<FilterNode>& filter,
                                           int64_t, const std::string&, const ItemParts&, const CallContext&) override {
    LC_RETURN_IF_ERROR(Try(filter));
    ScrollPage page;
    page.items.push_back(ItemOf(ItemId{"name"}));
    return page;
  }
  absl::StatusOr<CountAnswer> Count(const std::string&, const std::optional<FilterNode>& filter,
                                    const CallContext&) override {
    LC_RETURN_IF_ERROR(Try(filter));
    return CountAnswer{};
  }
  absl::StatusOr<FacetAnswer> Facet(const FacetCall& call, const CallContext&) override {
    LC_RETURN_IF_ERROR(Try(call.filter));
    return FacetAnswer{.values = {{FieldValue("x"), 1}, {FieldValue(2.5), 1}}, .distinct = 2};
  }

 private:
  static GenerationStatus Generation() {
    GenerationStatus status;
    status.generation = kGeneration;
    status.state = GenerationState::kActive;
    status.manifest_json = R"({"model":"m"})";
    return status;
  }
};

// A body that is taken is written and read again as the same value.
void CheckAgain(const nlohmann::json& value, JsonBudget* budget) {
  const auto again = ParseJsonBody(TextOfJson(value), budget);
  if (!again.ok() || again->value != value) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 1 << 16) return 0;
  static auto* const engine = new Points();
  const std::span<const Endpoint> endpoints = Endpoints();
  const Endpoint& endpoint = endpoints[data[0] % endpoints.size()];
  HttpRequest request;
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  request.parameters = {{"collection", "c"}, {"id", request.body}, {"field_name", request.body}};
  if (!endpoint.takes_body) request.query = {{"generation", request.body}, {"wait", request.body}};
  JsonBudget budget(int64_t{64} << 20);
  const auto body = ParseJsonBody(request.body, &budget);
  if (!body.ok() && endpoint.takes_body) {
    if (!absl::IsInvalidArgument(body.status()) && !absl::IsResourceExhausted(body.status())) std::abort();
    if (!nlohmann::json::accept(RestRefusal(body.status(), absl::ZeroDuration()).body)) std::abort();
    return 0;
  }
  if (body.ok()) CheckAgain(body->value, &budget);
  const nlohmann::json none;
  const IndexSettings defaults;
  const RestCall call{*engine, defaults, request, endpoint.takes_body ? body->value : none, {}, "0"};
  const absl::StatusOr<std::string> result = endpoint.answer(call);
  const HttpAnswer answer =
      result.ok() ? RestAnswer(*result, absl::ZeroDuration()) : RestRefusal(result.status(), absl::ZeroDuration());
  if (!nlohmann::json::accept(answer.body)) std::abort();
  return 0;
}
