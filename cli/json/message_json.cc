#include "cli/json/message_json.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/formats/ids.h"
#include "cli/json/rollout_json.h"
#include "cli/table.h"
#include "server/options/index_settings.h"

namespace lightcone::cli {
namespace {

// The part of a payload that a line of a table has room for.
std::string Shortened(const std::string& payload) {
  constexpr size_t kCharactersMax = 60;
  if (payload.size() <= kCharactersMax) return payload.empty() ? "{}" : payload;
  size_t end = kCharactersMax - 3;
  while (end > 0 && (static_cast<unsigned char>(payload[end]) & 0xc0) == 0x80) --end;
  return payload.substr(0, end) + "...";
}

template <typename Numbers>
std::string Joined(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += StrCat(text.empty() ? "" : " ", number);
  return text.empty() ? "-" : text;
}

}  // namespace

std::string BackfillStateName(v1::BackfillState state) {
  return state == v1::BACKFILL_STATE_UNSPECIFIED ? "not started" : EnumName(state);
}

OrderedJson PayloadJson(const std::string& payload_json) {
  if (payload_json.empty()) return OrderedJson::object();
  OrderedJson payload = OrderedJson::parse(payload_json, nullptr, /*allow_exceptions=*/false);
  return payload.is_discarded() ? OrderedJson(payload_json) : payload;
}

OrderedJson FilterValueJson(const v1::FilterValue& value) {
  switch (value.kind_case()) {
    case v1::FilterValue::kText:
      return value.text();
    case v1::FilterValue::kInteger:
      return value.integer();
    case v1::FilterValue::kNumber:
      return value.number();
    case v1::FilterValue::kBoolean:
      return value.boolean();
    case v1::FilterValue::KIND_NOT_SET:
      break;
  }
  return nullptr;
}

OrderedJson CollectionJson(const v1::CollectionInfo& info) {
  OrderedJson json = FieldsJson(info, {"name", "geometry"});
  if (info.geometry() == v1::GEOMETRY_LORENTZ) json["curvature"] = info.curvature();
  if (info.has_strict_mode()) {
    json["strict_mode"] =
        FieldsJson(info.strict_mode(), {"enabled?", "allow_unindexed_reads?", "allow_unindexed_writes?", "allow_exact?",
                                        "k_max?", "ef_max?", "queries_max?", "batch_items_max?", "payload_bytes_max?"});
  }
  json.update(FieldsJson(info, {"items", "active_generation", "generations", "require_generation", "default_ttl_ms",
                                "foreign_vectors", "scale_generation", "model_watch"}));
  ForEachIndexSetting([&]<typename T>(const IndexSetting<T>& one) {
    const auto* field = v1::IndexSettings::descriptor()->FindFieldByName(one.name);
    if (field != nullptr) json["index"][one.name] = FieldJson(info.index(), *field);
  });
  json.update(FieldsJson(info, {"index_choice?", "index_error?"}));
  json["segments"] = ListJson(info.segments(), {"generation", "id", "kind", "codes", "rows", "dead_rows", "bytes",
                                                "default_breadth", "default_recall?"});
  json["payload_indexes"] = OrderedJson::array();
  for (const auto& one : info.payload_indexes()) {
    json["payload_indexes"].push_back(FieldsJson(one.field(), {"path", "type"}));
    json["payload_indexes"].back().update(FieldsJson(one, {"ready", "items", "bytes", "error?"}));
  }
  json.update(FieldsJson(info, {"aliases", "created", "sequence"}));
  if (info.canary_generation() != 0) {
    json["canary"] = {{"generation", info.canary_generation()}, {"share", info.canary_share()}};
  }
  return json;
}

OrderedJson GenerationJson(const v1::GenerationInfo& info) {
  OrderedJson json =
      FieldsJson(info, {"generation", "state", "parent", "dimension", "compatible_prefix?", "curvature", "clip_radius",
                        "method", "has_encoder", "reach", "items", "registered", "activated"});
  json["manifest"] = PayloadJson(info.manifest_json());
  if (info.has_validation()) json["validation"] = ValidationJson(info.validation());
  return json;
}

OrderedJson AuditJson(const v1::AuditEntry& entry) {
  OrderedJson json = FieldsJson(entry, {"time", "action", "generation", "previous_generation", "forced", "reason",
                                        "out_of_reach", "request_id", "validated", "operator_name"});
  if (entry.action() == v1::AUDIT_ACTION_CANARY) json["share"] = entry.share();
  return json;
}

OrderedJson AdapterJson(const v1::AdapterInfo& info) {
  return FieldsJson(
      info, {"from_generation", "to_generation", "direction", "version", "kind", "input_dimension", "output_dimension",
             "width", "loss", "pairs", "matched", "held_out_error", "bytes", "crc32c", "put"});
}

OrderedJson BackfillJson(const v1::StatusResponse& status) {
  OrderedJson json = {{"state", BackfillStateName(status.state())}};
  json.update(
      FieldsJson(status, {"generation", "head_generation", "items_done", "items_total", "items_leased", "items_ordered",
                          "started", "error", "embed_rate", "items_per_second", "items_aside", "aside", "ahead"}));
  return json;
}

OrderedJson LeaseJson(const v1::LeaseResponse& lease) {
  OrderedJson json = {{"state", BackfillStateName(lease.state())}};
  json.update(FieldsJson(lease, {"generation", "token", "expires", "items"}));
  return json;
}

OrderedJson StoredItemJson(const v1::StoredItem& item) {
  OrderedJson json = FieldsJson(item, {"id", "generation", "generations", "uncertainty", "sequence", "has_input"});
  json["payload"] = PayloadJson(item.payload_json());
  json.update(FieldsJson(item, {"expires?", "vector?"}));
  return json;
}

OrderedJson HitJson(const v1::Hit& hit, bool with_payload) {
  OrderedJson json =
      FieldsJson(hit, {"id", "distance", "score", "generation", "uncertainty", "relevance?", "scaled_distance?"});
  if (with_payload) json["payload"] = PayloadJson(hit.payload_json());
  json.update(FieldsJson(hit, {"vector?"}));
  return json;
}

std::string CollectionsTable(const std::vector<v1::CollectionInfo>& infos) {
  Table table({"collection", "geometry", "items", "active", "by generation", "index", "segments", "aliases"});
  for (const v1::CollectionInfo& info : infos) {
    std::string shares, aliases;
    for (const auto& share : info.generations()) {
      shares += StrCat(shares.empty() ? "" : " ", share.generation(), ":", share.items());
    }
    for (const std::string& alias : info.aliases()) aliases += StrCat(aliases.empty() ? "" : " ", alias);
    const std::string geometry = info.geometry() == v1::GEOMETRY_LORENTZ
                                     ? StrCat("lorentz K=", Number(info.curvature()))
                                     : EnumName(info.geometry());
    table.Add({info.name(), geometry, Grouped(info.items()),
               info.active_generation() == 0 ? "-" : StrCat(info.active_generation()), shares.empty() ? "-" : shares,
               EnumName(info.index().kind()), StrCat(info.segments_size()), aliases.empty() ? "-" : aliases});
  }
  return table.Text();
}

std::string GenerationsTable(const std::vector<v1::GenerationInfo>& infos) {
  Table table({"generation", "state", "parent", "dimension", "K", "clip", "method", "encoder", "reach", "items"});
  for (const v1::GenerationInfo& info : infos) {
    table.Add({StrCat(info.generation()), EnumName(info.state()), info.parent() == 0 ? "-" : StrCat(info.parent()),
               StrCat(info.dimension()), Number(info.curvature()), Number(info.clip_radius()),
               info.method().empty() ? "-" : info.method(), info.has_encoder() ? "yes" : "no", Joined(info.reach()),
               Grouped(info.items())});
  }
  return table.Text();
}

std::string AuditTable(const std::vector<v1::AuditEntry>& entries) {
  Table table({"time", "action", "generation", "before", "validated", "forced", "out of reach", "by", "reason"});
  for (const v1::AuditEntry& entry : entries) {
    const OrderedJson json = AuditJson(entry);
    std::string action = json["action"].get<std::string>();
    if (entry.action() == v1::AUDIT_ACTION_CANARY) {
      action += entry.share() > 0 ? StrCat(" ", Number(entry.share() * 100), " %") : " ended";
    }
    table.Add({json["time"].get<std::string>(), action, StrCat(entry.generation()),
               entry.previous_generation() == 0 ? "-" : StrCat(entry.previous_generation()),
               entry.validated() ? "yes" : "no", entry.forced() ? "yes" : "no", Grouped(entry.out_of_reach()),
               entry.operator_name().empty() ? "-" : entry.operator_name(),
               entry.reason().empty() ? "-" : entry.reason()});
  }
  return table.Text();
}

std::string AdaptersTable(const std::vector<v1::AdapterInfo>& infos) {
  Table table({"from", "to", "direction", "version", "kind", "in", "out", "width", "loss", "pairs", "error", "size"});
  for (const v1::AdapterInfo& info : infos) {
    table.Add({StrCat(info.from_generation()), StrCat(info.to_generation()), EnumName(info.direction()),
               StrCat(info.version()), info.kind(), StrCat(info.input_dimension()), StrCat(info.output_dimension()),
               info.width() == 0 ? "-" : StrCat(info.width()), info.loss().empty() ? "-" : info.loss(),
               StrCat(Grouped(info.pairs()), info.matched() ? " matched" : ""), Number(info.held_out_error()),
               Bytes(info.bytes())});
  }
  return table.Text();
}

std::string BackfillTable(const v1::StatusResponse& status) {
  Table table({"state", "generation", "head of", "done", "of", "leased", "ordered"});
  table.Add({BackfillStateName(status.state()), StrCat(status.generation()),
             status.head_generation() == 0 ? "-" : StrCat(status.head_generation()), Grouped(status.items_done()),
             Grouped(status.items_total()), Grouped(status.items_leased()), Grouped(status.items_ordered())});
  std::string text = table.Text() + (status.error().empty() ? "" : status.error() + "\n");
  if (status.ahead()) {
    text += StrCat("ahead: generation ", status.generation(),
                   " does not serve yet, and searches do not see its embeddings\n");
  }
  const double rate = status.items_per_second();
  if (rate > 0) {
    const auto left = static_cast<double>(status.items_total() - status.items_done());
    text += StrCat(Number(rate), " items a second in the last minute: ", SecondsText(left / rate), " to go\n");
  }
  if (status.items_aside() > 0) text += StrCat(Grouped(status.items_aside()), " items could not be embedded here\n");
  for (const v1::AsideItem& item : status.aside())
    text += StrCat("  ", ItemIdText(item.id()), ": ", item.reason(), "\n");
  return text;
}

std::string LeaseTable(const v1::LeaseResponse& lease) {
  if (lease.items().empty() && !lease.token().empty()) return StrCat("lease ", lease.token(), " is renewed\n");
  if (lease.items().empty()) return StrCat("no items; the backfill is ", BackfillStateName(lease.state()), "\n");
  Table table({"id", "sequence", "generation", "uncertainty", "input", "because"});
  for (const v1::LeasedItem& item : lease.items()) {
    table.Add({ItemIdText(item.id()), StrCat(item.sequence()), StrCat(item.generation()), Number(item.uncertainty()),
               item.has_input() ? "stored" : "-", item.found_lately() ? "found lately" : "worst first"});
  }
  return table.Text() + StrCat("token ", lease.token(), ", embed by generation ", lease.generation(), "\n");
}

std::string SegmentsTable(const v1::CollectionInfo& info) {
  Table table({"segment", "generation", "kind", "codes", "rows", "dead", "size", "breadth", "recall"});
  for (const auto& segment : info.segments()) {
    table.Add({StrCat(segment.id()), StrCat(segment.generation()), segment.kind(), segment.codes(),
               Grouped(segment.rows()), Grouped(segment.dead_rows()), Bytes(segment.bytes()),
               !segment.has_default_recall()    ? "-"
               : segment.default_breadth() == 0 ? "scanned"
                                                : StrCat(segment.default_breadth()),
               segment.has_default_recall() ? Number(segment.default_recall()) : "-"});
  }
  return table.Text();
}

std::string PayloadIndexesTable(const v1::CollectionInfo& info) {
  Table table({"payload index", "type", "state", "items", "size"});
  for (const auto& one : info.payload_indexes()) {
    table.Add({one.field().path(), EnumName(one.field().type()),
               !one.error().empty() ? StrCat(one.ready() ? "ready, but " : "failed, to be tried again: ", one.error())
               : one.ready()        ? "ready"
                                    : "building",
               Grouped(one.items()), Bytes(one.bytes())});
  }
  return table.Text();
}

std::string ItemsTable(const std::vector<v1::StoredItem>& items) {
  const bool any = std::ranges::any_of(items, [](const v1::StoredItem& item) { return item.has_expires(); });
  std::vector<std::string> heads = {"id", "generation", "generations", "uncertainty", "sequence", "payload"};
  if (any) heads.insert(heads.end() - 1, "expires");
  Table table(heads);
  for (const v1::StoredItem& item : items) {
    std::vector<std::string> cells = {ItemIdText(item.id()),      StrCat(item.generation()),
                                      Joined(item.generations()), Number(item.uncertainty()),
                                      StrCat(item.sequence()),    Shortened(item.payload_json())};
    const OrderedJson expires = TimeJson(item.has_expires(), item.expires());
    if (any) cells.insert(cells.end() - 1, expires.is_string() ? expires.get<std::string>() : "-");
    table.Add(std::move(cells));
  }
  return table.Text();
}

}  // namespace lightcone::cli
