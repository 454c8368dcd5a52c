#include "cli/json/message_json.h"

#include <algorithm>
#include <cctype>

#include "absl/time/time.h"
#include "base/strings.h"
#include "cli/formats/ids.h"
#include "cli/json/rollout_json.h"
#include "cli/table.h"
#include "client/client.h"

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

OrderedJson VectorJson(const v1::Vector& vector) {
  const auto values = client::VectorOf(vector);
  return values.ok() ? OrderedJson(*values) : OrderedJson(nullptr);
}

template <typename Numbers>
std::string Joined(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += StrCat(text.empty() ? "" : " ", number);
  return text.empty() ? "-" : text;
}

}  // namespace

std::string LowerWithout(const std::string& name, std::string_view prefix) {
  std::string text = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.empty() ? "unknown" : text;
}

std::string GeometryName(v1::Geometry geometry) { return LowerWithout(v1::Geometry_Name(geometry), "GEOMETRY_"); }
std::string RowCodesName(v1::RowCodes codes) { return LowerWithout(v1::RowCodes_Name(codes), "ROW_CODES_"); }
std::string IndexKindName(v1::IndexKind kind) { return LowerWithout(v1::IndexKind_Name(kind), "INDEX_KIND_"); }
std::string StateName(v1::GenerationState state) {
  return LowerWithout(v1::GenerationState_Name(state), "GENERATION_STATE_");
}
std::string BackfillStateName(v1::BackfillState state) {
  switch (state) {
    case v1::BACKFILL_STATE_UNSPECIFIED:
      return "not started";
    case v1::BACKFILL_STATE_ORDERING:
      return "ordering";
    case v1::BACKFILL_STATE_RUNNING:
      return "running";
    case v1::BACKFILL_STATE_PAUSED:
      return "paused";
    case v1::BACKFILL_STATE_STOPPED:
      return "stopped";
    case v1::BACKFILL_STATE_DONE:
      return "done";
    case v1::BACKFILL_STATE_FAILED:
      return "failed";
    default:
      return "unknown";
  }
}

std::string ActionName(v1::AuditAction action) { return LowerWithout(v1::AuditAction_Name(action), "AUDIT_ACTION_"); }

std::string DirectionName(v1::AdapterDirection direction) {
  return LowerWithout(v1::AdapterDirection_Name(direction), "ADAPTER_DIRECTION_");
}

OrderedJson PayloadJson(const std::string& payload_json) {
  if (payload_json.empty()) return OrderedJson::object();
  OrderedJson payload = OrderedJson::parse(payload_json, nullptr, /*allow_exceptions=*/false);
  return payload.is_discarded() ? OrderedJson(payload_json) : payload;
}

OrderedJson TimeJson(bool present, const google::protobuf::Timestamp& time) {
  if (!present) return nullptr;
  const absl::Time when = absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", when, absl::UTCTimeZone());
}

std::string PayloadTypeName(v1::PayloadType type) { return LowerWithout(v1::PayloadType_Name(type), "PAYLOAD_TYPE_"); }

OrderedJson CollectionJson(const v1::CollectionInfo& info) {
  OrderedJson json;
  json["name"] = info.name();
  json["geometry"] = GeometryName(info.geometry());
  if (info.geometry() == v1::GEOMETRY_LORENTZ) json["curvature"] = info.curvature();
  json["items"] = info.items();
  json["active_generation"] = info.active_generation();
  json["generations"] = OrderedJson::array();
  for (const auto& share : info.generations()) {
    json["generations"].push_back({{"generation", share.generation()}, {"items", share.items()}});
  }
  json["index"] = {{"kind", IndexKindName(info.index().kind())},
                   {"codes", RowCodesName(info.index().codes())},
                   {"hnsw_m", info.index().hnsw_m()},
                   {"hnsw_ef_construction", info.index().hnsw_ef_construction()},
                   {"hnsw_ef_search", info.index().hnsw_ef_search()},
                   {"ivf_lists", info.index().ivf_lists()},
                   {"ivf_nprobe", info.index().ivf_nprobe()},
                   {"pq_m", info.index().pq_m()},
                   {"growing_rows_max", info.index().growing_rows_max()},
                   {"merge_rows_max", info.index().merge_rows_max()}};
  if (!info.index_choice().empty()) json["index_choice"] = info.index_choice();
  if (!info.index_error().empty()) json["index_error"] = info.index_error();
  json["segments"] = OrderedJson::array();
  for (const auto& segment : info.segments()) {
    json["segments"].push_back({{"generation", segment.generation()},
                                {"id", segment.id()},
                                {"kind", segment.kind()},
                                {"codes", segment.codes()},
                                {"rows", segment.rows()},
                                {"dead_rows", segment.dead_rows()},
                                {"bytes", segment.bytes()}});
  }
  json["payload_indexes"] = OrderedJson::array();
  for (const auto& one : info.payload_indexes()) {
    json["payload_indexes"].push_back({{"path", one.field().path()},
                                       {"type", PayloadTypeName(one.field().type())},
                                       {"ready", one.ready()},
                                       {"items", one.items()},
                                       {"bytes", one.bytes()}});
    if (!one.error().empty()) json["payload_indexes"].back()["error"] = one.error();
  }
  json["aliases"] = OrderedJson::array();
  for (const std::string& alias : info.aliases()) json["aliases"].push_back(alias);
  json["created"] = TimeJson(info.has_created(), info.created());
  json["sequence"] = info.sequence();
  if (info.canary_generation() != 0) {
    json["canary"] = {{"generation", info.canary_generation()}, {"share", info.canary_share()}};
  }
  return json;
}

OrderedJson GenerationJson(const v1::GenerationInfo& info) {
  OrderedJson json;
  json["generation"] = info.generation();
  json["state"] = StateName(info.state());
  json["parent"] = info.parent();
  json["dimension"] = info.dimension();
  if (info.compatible_prefix() > 0) json["compatible_prefix"] = info.compatible_prefix();
  json["curvature"] = info.curvature();
  json["clip_radius"] = info.clip_radius();
  json["method"] = info.method();
  json["has_encoder"] = info.has_encoder();
  json["reach"] = OrderedJson::array();
  for (const uint32_t generation : info.reach()) json["reach"].push_back(generation);
  json["items"] = info.items();
  json["registered"] = TimeJson(info.has_registered(), info.registered());
  json["activated"] = TimeJson(info.has_activated(), info.activated());
  json["manifest"] = PayloadJson(info.manifest_json());
  if (info.has_validation()) json["validation"] = ValidationJson(info.validation());
  return json;
}

OrderedJson AuditJson(const v1::AuditEntry& entry) {
  OrderedJson json;
  json["time"] = TimeJson(entry.has_time(), entry.time());
  json["action"] = ActionName(entry.action());
  json["generation"] = entry.generation();
  json["previous_generation"] = entry.previous_generation();
  json["forced"] = entry.forced();
  json["reason"] = entry.reason();
  json["out_of_reach"] = entry.out_of_reach();
  json["request_id"] = entry.request_id();
  json["validated"] = entry.validated();
  json["operator_name"] = entry.operator_name();
  if (entry.action() == v1::AUDIT_ACTION_CANARY) json["share"] = entry.share();
  return json;
}

OrderedJson AdapterJson(const v1::AdapterInfo& info) {
  OrderedJson json;
  json["from_generation"] = info.from_generation();
  json["to_generation"] = info.to_generation();
  json["direction"] = DirectionName(info.direction());
  json["version"] = info.version();
  json["kind"] = info.kind();
  json["input_dimension"] = info.input_dimension();
  json["output_dimension"] = info.output_dimension();
  json["width"] = info.width();
  json["loss"] = info.loss();
  json["pairs"] = info.pairs();
  json["held_out_error"] = info.held_out_error();
  json["bytes"] = info.bytes();
  json["crc32c"] = info.crc32c();
  json["put"] = TimeJson(info.has_put(), info.put());
  return json;
}

OrderedJson BackfillJson(const v1::StatusResponse& status) {
  OrderedJson json;
  json["state"] = BackfillStateName(status.state());
  json["generation"] = status.generation();
  json["head_generation"] = status.head_generation();
  json["items_done"] = status.items_done();
  json["items_total"] = status.items_total();
  json["items_leased"] = status.items_leased();
  json["items_ordered"] = status.items_ordered();
  json["started"] = TimeJson(status.has_started(), status.started());
  json["error"] = status.error();
  json["embed_rate"] = status.embed_rate();
  json["items_per_second"] = status.items_per_second();
  json["items_aside"] = status.items_aside();
  json["aside"] = OrderedJson::array();
  for (const v1::AsideItem& item : status.aside()) {
    json["aside"].push_back({{"id", ItemIdJson(item.id())}, {"reason", item.reason()}});
  }
  return json;
}

OrderedJson LeaseJson(const v1::LeaseResponse& lease) {
  OrderedJson json;
  json["state"] = BackfillStateName(lease.state());
  json["generation"] = lease.generation();
  json["token"] = lease.token();
  json["expires"] = TimeJson(lease.has_expires(), lease.expires());
  json["items"] = OrderedJson::array();
  for (const v1::LeasedItem& item : lease.items()) {
    json["items"].push_back({{"id", ItemIdJson(item.id())},
                             {"sequence", item.sequence()},
                             {"generation", item.generation()},
                             {"uncertainty", item.uncertainty()},
                             {"has_input", item.has_input()},
                             {"found_lately", item.found_lately()}});
  }
  return json;
}

OrderedJson StoredItemJson(const v1::StoredItem& item) {
  OrderedJson json;
  json["id"] = ItemIdJson(item.id());
  json["generation"] = item.generation();
  json["generations"] = OrderedJson::array();
  for (const uint32_t generation : item.generations()) json["generations"].push_back(generation);
  json["uncertainty"] = item.uncertainty();
  json["sequence"] = item.sequence();
  json["has_input"] = item.has_input();
  json["payload"] = PayloadJson(item.payload_json());
  if (item.has_vector()) json["vector"] = VectorJson(item.vector());
  return json;
}

OrderedJson HitJson(const v1::Hit& hit, bool with_payload) {
  OrderedJson json;
  json["id"] = ItemIdJson(hit.id());
  json["distance"] = hit.distance();
  json["score"] = hit.score();
  json["generation"] = hit.generation();
  json["uncertainty"] = hit.uncertainty();
  if (with_payload) json["payload"] = PayloadJson(hit.payload_json());
  if (hit.has_vector()) json["vector"] = VectorJson(hit.vector());
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
                                     : GeometryName(info.geometry());
    table.Add({info.name(), geometry, Grouped(info.items()),
               info.active_generation() == 0 ? "-" : StrCat(info.active_generation()), shares.empty() ? "-" : shares,
               IndexKindName(info.index().kind()), StrCat(info.segments_size()), aliases.empty() ? "-" : aliases});
  }
  return table.Text();
}

std::string GenerationsTable(const std::vector<v1::GenerationInfo>& infos) {
  Table table({"generation", "state", "parent", "dimension", "K", "clip", "method", "encoder", "reach", "items"});
  for (const v1::GenerationInfo& info : infos) {
    table.Add({StrCat(info.generation()), StateName(info.state()), info.parent() == 0 ? "-" : StrCat(info.parent()),
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
    table.Add({StrCat(info.from_generation()), StrCat(info.to_generation()), DirectionName(info.direction()),
               StrCat(info.version()), info.kind(), StrCat(info.input_dimension()), StrCat(info.output_dimension()),
               info.width() == 0 ? "-" : StrCat(info.width()), info.loss().empty() ? "-" : info.loss(),
               Grouped(info.pairs()), Number(info.held_out_error()), Bytes(info.bytes())});
  }
  return table.Text();
}

std::string BackfillTable(const v1::StatusResponse& status) {
  Table table({"state", "generation", "head of", "done", "of", "leased", "ordered"});
  table.Add({BackfillStateName(status.state()), StrCat(status.generation()),
             status.head_generation() == 0 ? "-" : StrCat(status.head_generation()), Grouped(status.items_done()),
             Grouped(status.items_total()), Grouped(status.items_leased()), Grouped(status.items_ordered())});
  std::string text = table.Text() + (status.error().empty() ? "" : status.error() + "\n");
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
  Table table({"segment", "generation", "kind", "codes", "rows", "dead", "size"});
  for (const auto& segment : info.segments()) {
    table.Add({StrCat(segment.id()), StrCat(segment.generation()), segment.kind(), segment.codes(),
               Grouped(segment.rows()), Grouped(segment.dead_rows()), Bytes(segment.bytes())});
  }
  return table.Text();
}

std::string PayloadIndexesTable(const v1::CollectionInfo& info) {
  Table table({"payload index", "type", "state", "items", "size"});
  for (const auto& one : info.payload_indexes()) {
    table.Add({one.field().path(), PayloadTypeName(one.field().type()),
               !one.error().empty() ? StrCat(one.ready() ? "ready, but " : "failed, to be tried again: ", one.error())
               : one.ready()        ? "ready"
                                    : "building",
               Grouped(one.items()), Bytes(one.bytes())});
  }
  return table.Text();
}

std::string ItemsTable(const std::vector<v1::StoredItem>& items) {
  Table table({"id", "generation", "generations", "uncertainty", "sequence", "payload"});
  for (const v1::StoredItem& item : items) {
    table.Add({ItemIdText(item.id()), StrCat(item.generation()), Joined(item.generations()), Number(item.uncertainty()),
               StrCat(item.sequence()), Shortened(item.payload_json())});
  }
  return table.Text();
}

}  // namespace lightcone::cli
