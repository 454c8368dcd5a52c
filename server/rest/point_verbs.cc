// Points: written, read, deleted, listed, counted.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/rest/fields.h"
#include "server/rest/point_filter.h"
#include "server/rest/point_text.h"
#include "server/rest/point_vectors.h"
#include "server/rest/verbs.h"

namespace lightcone::server::rest {
namespace {

using nlohmann::json;

// Points of one call that follow each other and are of one generation: one batch of the engine.
using Runs = std::vector<UpsertBatch>;

absl::StatusOr<int64_t> TtlFrom(const json& seconds, const std::string& field) {
  constexpr double kSecondsMax = static_cast<double>(kTtlMaxMs) / 1'000;
  const double value = seconds.is_number() ? seconds.get<double>() : -1;
  if (value >= 0 && value <= kSecondsMax) return static_cast<int64_t>(std::ceil(value * 1'000));
  return InvalidField(field, ShownJson(seconds), StrCat("0 (the point stays) .. ", kTtlMaxMs / 1'000, " seconds"));
}

class RunBuilder {
 public:
  explicit RunBuilder(const RestCall& call)
      : collection_(call.collection()),
        items_max_(static_cast<size_t>(call.engine.options().limits.batch_items_max)),
        names_(&call.engine, collection_) {}

  // `ttl`: seconds, which only we know; nullptr: as the collection says.
  absl::Status Add(const json& id, const json& vector, const json* payload, const json* ttl, const std::string& path) {
    UpsertItem item;
    if (ttl != nullptr) {
      LC_ASSIGN_OR_RETURN(item.ttl_ms, TtlFrom(*ttl, StrCat(path, ".ttl_seconds")));
    }
    LC_ASSIGN_OR_RETURN(item.id, PointIdFrom(id, StrCat(path, ".id")));
    const std::string at = StrCat(path, ".vector");
    LC_ASSIGN_OR_RETURN(NamedVector named, NamedVectorFrom(vector, at));
    LC_ASSIGN_OR_RETURN(const uint32_t generation, names_.Find(named.name, at));
    item.content = std::visit([](auto& content) { return decltype(item.content)(std::move(content)); }, named.content);
    if (payload != nullptr && !payload->is_null()) {
      if (!payload->is_object()) return InvalidField(StrCat(path, ".payload"), ShownJson(*payload), "a JSON object");
      item.payload_json = TextOfJson(*payload);
    }
    if (runs_.empty() || runs_.back().generation != generation || runs_.back().items.size() >= items_max_) {
      runs_.emplace_back();
      runs_.back().collection = collection_;
      runs_.back().generation = generation;
    }
    runs_.back().items.push_back(std::move(item));
    return absl::OkStatus();
  }

  Runs Take() { return std::move(runs_); }

 private:
  const std::string collection_;
  const size_t items_max_;
  GenerationNames names_;
  Runs runs_;
};

absl::Status AddListed(const json& points, RunBuilder* runs) {
  if (!points.is_array()) return InvalidField("points", ShownJson(points), "an array of points");
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string path = StrCat("points[", i, "]");
    LC_ASSIGN_OR_RETURN(const Fields point, Fields::Of(points[i], path));
    LC_ASSIGN_OR_RETURN(const json* const id, point.Require("id", "an unsigned integer or a UUID"));
    LC_ASSIGN_OR_RETURN(const json* const vector, point.Require("vector", "an array of numbers"));
    LC_RETURN_IF_ERROR(runs->Add(*id, *vector, point.Find("payload"), point.Find("ttl_seconds"), path));
  }
  return absl::OkStatus();
}

// The member `name` of the batch, an array as long as `ids`.
absl::StatusOr<const json*> ColumnOf(const Fields& batch, const json& column, const char* name, size_t ids) {
  if (column.is_array() && column.size() == ids) return &column;
  return InvalidField(batch.At(name), ShownJson(column), StrCat("an array of ", ids, ", one for each of ids"));
}

absl::Status AddColumns(const json& json_batch, RunBuilder* runs) {
  LC_ASSIGN_OR_RETURN(const Fields batch, Fields::Of(json_batch, "batch"));
  LC_ASSIGN_OR_RETURN(const json* const ids, batch.Require("ids", "an array of ids"));
  if (!ids->is_array()) return InvalidField(batch.At("ids"), ShownJson(*ids), "an array of ids");
  LC_ASSIGN_OR_RETURN(const json* vectors, batch.Require("vectors", "an array of vectors"));
  std::string name;
  if (vectors->is_object()) {
    if (vectors->size() != 1) return NotSupported(batch.At("vectors"), "a call gives one vector for each point");
    name = vectors->begin().key();
    vectors = &vectors->begin().value();
  }
  LC_ASSIGN_OR_RETURN(vectors, ColumnOf(batch, *vectors, "vectors", ids->size()));
  const json* payloads = batch.Find("payloads");
  if (payloads != nullptr) {
    LC_ASSIGN_OR_RETURN(payloads, ColumnOf(batch, *payloads, "payloads", ids->size()));
  }
  const json* const ttl = batch.Find("ttl_seconds");
  for (size_t i = 0; i < ids->size(); ++i) {
    const json& plain = (*vectors)[i];
    const json* const payload = payloads == nullptr ? nullptr : &(*payloads)[i];
    const std::string path = StrCat("batch[", i, "]");
    if (name.empty()) {
      LC_RETURN_IF_ERROR(runs->Add((*ids)[i], plain, payload, ttl, path));
    } else {
      LC_RETURN_IF_ERROR(runs->Add((*ids)[i], json::object({{name, plain}}), payload, ttl, path));
    }
  }
  return absl::OkStatus();
}

Answer WriteRuns(const RestCall& call, Runs batches) {
  if (batches.empty()) return InvalidField("points", "empty", "at least one point");
  uint64_t sequence = 0;
  std::vector<std::string> warnings;
  for (UpsertBatch& batch : batches) {
    LC_ASSIGN_OR_RETURN(const WriteResult written, call.engine.Upsert(std::move(batch), call.context));
    sequence = written.sequence;
    warnings.insert(warnings.end(), written.warnings.begin(), written.warnings.end());
  }
  return UpdateResult(call, sequence, warnings);
}

// Generation whose embeddings an answer shows; 0: each point's own.
absl::StatusOr<uint32_t> ShownGeneration(const RestCall& call, const PointParts& parts) {
  LC_ASSIGN_OR_RETURN(const uint32_t asked, call.QueryGeneration());
  if (asked != 0 || parts.vector_name.empty()) return asked;
  return GenerationNames(&call.engine, call.collection()).Find(parts.vector_name, "with_vector");
}

PointView ViewOf(const StoredItem& item) {
  return {item.id, item.payload_json, item.vector, item.generation, item.uncertainty, item.expires};
}

absl::StatusOr<uint64_t> DeleteFiltered(const RestCall& call, FilterNode filter) {
  DeleteByFilterCall next;
  next.collection = call.collection();
  next.filter = std::move(filter);
  uint64_t sequence = 0;
  do {
    LC_ASSIGN_OR_RETURN(DeleteByFilterAnswer done, call.engine.DeleteByFilter(next, call.context));
    sequence = std::max(sequence, done.sequence);
    next.token = std::move(done.token);
  } while (!next.token.empty());
  return sequence;
}

absl::Status RefuseShards(const Fields& body) { return body.Refuse("shard_key", "there are no shards"); }

// The id at which the next page begins, as JSON: null at the end.
// `next_page_offset` of an answer: a number, or a name as it is stored, which need not be a UUID.
absl::StatusOr<ItemId> OffsetFrom(const json& offset) {
  if (offset.is_string()) return ItemId{offset.get<std::string>()};
  return PointIdFrom(offset, "offset");
}

absl::StatusOr<std::string> NextOffset(const RestCall& call, const std::optional<FilterNode>& filter, ScrollPage* page,
                                       size_t limit) {
  if (page->items.size() > limit) {
    const std::string next = PointIdText(page->items[limit].id);
    page->items.erase(page->items.begin() + static_cast<std::ptrdiff_t>(limit), page->items.end());
    return next;
  }
  if (page->token.empty()) return std::string("null");
  LC_ASSIGN_OR_RETURN(const ScrollPage behind,
                      call.engine.Scroll(call.collection(), filter, 1, page->token, {}, call.context));
  return behind.items.empty() ? std::string("null") : PointIdText(behind.items[0].id);
}

}  // namespace

Answer UpsertPoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(RefuseShards(body));
  LC_RETURN_IF_ERROR(body.Refuse("update_filter", "a conditional write is there over gRPC"));
  LC_RETURN_IF_ERROR(body.Refuse("update_mode", "a write inserts or replaces"));
  RunBuilder runs(call);
  if (const json* points = body.Find("points")) {
    LC_RETURN_IF_ERROR(AddListed(*points, &runs));
  } else if (const json* batch = body.Find("batch")) {
    LC_RETURN_IF_ERROR(AddColumns(*batch, &runs));
  } else {
    return InvalidField("body", "without points", "one of points, batch");
  }
  return WriteRuns(call, runs.Take());
}

// A vector is new content: the point's embeddings by other generations go, and an input that was kept. Payload and
// time stay.
Answer UpdateVectors(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(RefuseShards(body));
  LC_RETURN_IF_ERROR(body.Refuse("update_filter", "a conditional write is there over gRPC"));
  LC_ASSIGN_OR_RETURN(const json* const points, body.Require("points", "an array of {id, vector}"));
  for (size_t i = 0; points->is_array() && i < points->size(); ++i) {
    for (const char* name : {"payload", "ttl_seconds"}) {
      if (!(*points)[i].is_object() || !(*points)[i].contains(name)) continue;
      return InvalidField(StrCat("points[", i, "].", name), "set", "nothing: the point keeps its own");
    }
  }
  RunBuilder runs(call);
  LC_RETURN_IF_ERROR(AddListed(*points, &runs));
  Runs batches = runs.Take();
  for (UpsertBatch& batch : batches) batch.keep_payload = true;
  return WriteRuns(call, std::move(batches));
}

Answer GetPoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(RefuseShards(body));
  LC_ASSIGN_OR_RETURN(const json* const given, body.Require("ids", "an array of ids"));
  LC_ASSIGN_OR_RETURN(const std::vector<ItemId> ids, PointIdsFrom(*given, "ids"));
  LC_ASSIGN_OR_RETURN(const PointParts parts, PointPartsOf(body, /*payload_by_default=*/true));
  if (ids.empty()) return std::string("[]");
  LC_ASSIGN_OR_RETURN(const uint32_t generation, ShownGeneration(call, parts));
  LC_ASSIGN_OR_RETURN(const GetAnswer found, call.engine.Get(call.collection(), ids, generation,
                                                             ItemParts(parts.vector, parts.selection), call.context));
  std::vector<std::string> records;
  for (const StoredItem& item : found.items) records.push_back(RecordText(ViewOf(item), parts));
  return ListText(records);
}

Answer GetPoint(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const ItemId id, PointIdFromPath(call.Parameter("id")));
  PointParts parts;
  parts.payload = parts.vector = true;
  LC_ASSIGN_OR_RETURN(const uint32_t generation, call.QueryGeneration());
  LC_ASSIGN_OR_RETURN(const GetAnswer found,
                      call.engine.Get(call.collection(), {id}, generation, ItemParts(true), call.context));
  if (found.items.empty()) return NotFound(StrCat("Not found: Point with id ", PointIdText(id), " does not exist!"));
  return RecordText(ViewOf(found.items[0]), parts);
}

Answer DeletePoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(RefuseShards(body));
  uint64_t sequence = 0;
  if (const json* points = body.Find("points")) {
    LC_ASSIGN_OR_RETURN(const std::vector<ItemId> ids, PointIdsFrom(*points, "points"));
    if (ids.empty()) return InvalidField("points", "empty", "at least one id");
    LC_ASSIGN_OR_RETURN(const WriteResult deleted,
                        call.engine.Delete(call.collection(), ids, Durability::kDurable, call.context));
    sequence = deleted.sequence;
  } else {
    LC_ASSIGN_OR_RETURN(std::optional<FilterNode> filter, PointFilterOf(call, body));
    if (!filter) return InvalidField("body", "without points", "one of points, filter");
    LC_ASSIGN_OR_RETURN(sequence, DeleteFiltered(call, *std::move(filter)));
  }
  return UpdateResult(call, sequence);
}

Answer ScrollPoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(RefuseShards(body));
  if (body.Find("order_by") != nullptr) return ScrollPointsInOrder(call);
  const int64_t items_max = call.engine.options().limits.page_items_max;
  LC_ASSIGN_OR_RETURN(const int64_t limit, body.Whole("limit", 10, 1, items_max));
  LC_ASSIGN_OR_RETURN(PointParts parts, PointPartsOf(body, /*payload_by_default=*/true));
  LC_RETURN_IF_ERROR(FindVectorGeneration(call, &parts));
  LC_ASSIGN_OR_RETURN(const std::optional<FilterNode> filter, PointFilterOf(call, body));
  std::string token;
  if (const json* offset = body.Find("offset")) {
    LC_ASSIGN_OR_RETURN(const ItemId from, OffsetFrom(*offset));
    LC_ASSIGN_OR_RETURN(token, call.engine.ScrollTokenAt(call.collection(), from));
  }
  LC_ASSIGN_OR_RETURN(ScrollPage page,
                      call.engine.Scroll(call.collection(), filter, std::min(limit + 1, items_max), token,
                                         ItemParts(parts.vector, parts.selection), call.context));
  LC_ASSIGN_OR_RETURN(const std::string next, NextOffset(call, filter, &page, static_cast<size_t>(limit)));
  std::vector<std::string> records;
  for (const StoredItem& item : page.items) records.push_back(RecordText(ViewOf(item), parts));
  return StrCat("{\"points\":", ListText(records), ",\"next_page_offset\":", next, "}");
}

// Counts are exact, whatever "exact" says.
Answer CountPoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(RefuseShards(body));
  LC_ASSIGN_OR_RETURN(const std::optional<FilterNode> filter, PointFilterOf(call, body));
  LC_ASSIGN_OR_RETURN(const CountAnswer counted, call.engine.Count(call.collection(), filter, call.context));
  return StrCat("{\"count\":", counted.count, "}");
}

}  // namespace lightcone::server::rest
