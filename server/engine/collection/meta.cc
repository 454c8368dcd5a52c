#include "server/engine/collection/meta.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/status.h"
#include "server/engine/collection/record_json.h"

namespace lightcone::server {
namespace {

Json ToJson(const IndexSettings& s) {
  Json json = {{"kind", SealedKindName(s.kind)},
               {"codes", RowCodesName(s.codes)},
               {"growing_rows_max", s.growing_rows_max},
               {"merge_rows_max", s.merge_rows_max},
               {"tombstones_share_max", s.tombstones_share_max},
               {"hnsw_m", s.hnsw_m},
               {"hnsw_ef_construction", s.hnsw_ef_construction},
               {"hnsw_ef_search", s.hnsw_ef_search},
               {"ivf_lists", s.ivf_lists},
               {"ivf_nprobe", s.ivf_nprobe},
               {"pq_m", s.pq_m},
               {"build_threads", s.build_threads}};
  if (s.rebuild > 0) json["rebuild"] = s.rebuild;
  return json;
}

absl::StatusOr<IndexSettings> IndexFromJson(const Json& json) {
  IndexSettings s;
  FieldReader reader("collection", json);
  std::string kind, codes = "float32";
  reader.Read("kind", &kind);
  // Records of older servers lack what came later.
  if (reader.Has("codes")) reader.Read("codes", &codes);
  if (reader.Has("ivf_lists")) reader.Read("ivf_lists", &s.ivf_lists);
  if (reader.Has("ivf_nprobe")) reader.Read("ivf_nprobe", &s.ivf_nprobe);
  if (reader.Has("pq_m")) reader.Read("pq_m", &s.pq_m);
  if (reader.Has("rebuild")) reader.Read("rebuild", &s.rebuild);
  reader.Read("growing_rows_max", &s.growing_rows_max);
  reader.Read("merge_rows_max", &s.merge_rows_max);
  reader.Read("tombstones_share_max", &s.tombstones_share_max);
  reader.Read("hnsw_m", &s.hnsw_m);
  reader.Read("hnsw_ef_construction", &s.hnsw_ef_construction);
  reader.Read("hnsw_ef_search", &s.hnsw_ef_search);
  reader.Read("build_threads", &s.build_threads);
  const std::optional<SealedKind> known_kind = ParseSealedKind(kind);
  const std::optional<RowCodes> known_codes = ParseRowCodes(codes);
  if (!known_kind) reader.Fail("kind");
  if (!known_codes) reader.Fail("codes");
  LC_RETURN_IF_ERROR(reader.status());
  s.kind = *known_kind;
  s.codes = *known_codes;
  const absl::Status valid = s.Validate();
  if (!valid.ok()) return DataLoss(StrCat("collection record: ", MessageOf(valid)));
  return s;
}

// Generations of an item: ascending, none twice, none 0.
bool ReadGenerations(const Json& json, std::vector<uint32_t>* out) {
  if (!json.is_array() || json.empty()) return false;
  for (const Json& g : json) {
    if (!g.is_number_unsigned() || g.get<uint64_t>() == 0 || g.get<uint64_t>() > UINT32_MAX) return false;
    const auto generation = static_cast<uint32_t>(g.get<uint64_t>());
    if (!out->empty() && out->back() >= generation) return false;
    out->push_back(generation);
  }
  return true;
}

}  // namespace

std::string Encode(const CollectionRecord& r) {
  Json json = {{"format", kFormat},
               {"name", r.name},
               {"metric", std::string(MetricName(r.metric))},
               {"curvature", r.curvature},
               {"index", ToJson(r.index)},
               {"active_generation", r.active_generation},
               {"last_generation", r.last_generation},
               {"aliases", r.aliases},
               {"created_us", r.created_us}};
  if (r.last_adapter_version != 0) json["last_adapter_version"] = r.last_adapter_version;
  if (!r.earlier_active.empty()) json["earlier_active"] = r.earlier_active;
  if (!r.probe_sets.empty()) json["probe_sets"] = r.probe_sets;
  if (r.canary_generation != 0) {
    json["format"] = kFormatOfCanaries;
    json["canary"] = {{"generation", r.canary_generation}, {"share", r.canary_share}, {"began_us", r.canary_us}};
  }
  for (const PayloadField& field : r.payload_fields) {
    json["payload_fields"].push_back({{"path", field.path}, {"type", PayloadTypeName(field.type)}});
  }
  return Dump(json);
}

std::string Encode(const GenerationRecord& r) {
  Json json = {{"format", kFormat},
               {"generation", r.generation},
               {"parent", r.parent},
               {"metric", std::string(MetricName(r.space.metric))},
               {"dimension", r.space.dimension},
               {"curvature", r.space.curvature},
               {"clip_radius", r.space.clip_radius},
               {"method", r.method},
               {"has_encoder", r.has_encoder},
               {"retired", r.retired},
               {"registered_us", r.registered_us},
               {"manifest_json", r.manifest_json}};
  if (r.compatible_prefix != 0) json["compatible_prefix"] = r.compatible_prefix;
  if (r.activated_us) json["activated_us"] = *r.activated_us;
  if (!r.activated_by.empty()) json["activated_by"] = r.activated_by;
  if (r.removed) json["removed"] = true;
  if (r.draft) {
    json["format"] = kFormatOfCanaries;
    json["draft"] = true;
  }
  if (r.validation != nullptr) json["validation_json"] = Encode(*r.validation);
  return Dump(json);
}

std::string Encode(const AdapterRecord& r) {
  const std::string head = Dump({{"format", kFormat},
                                 {"from_generation", r.from},
                                 {"to_generation", r.to},
                                 {"version", r.version},
                                 {"put_us", r.put_us},
                                 {"file_bytes", r.file.size()}});
  return head + "\n" + r.file;
}

std::string Encode(const ProgressRecord& r) {
  Json items = Json::array();
  for (const auto& [generations, count] : r.items) {
    if (count > 0) items.push_back({{"generations", generations}, {"count", count}});
  }
  return Dump({{"format", kFormat},
               {"sequence", r.sequence},
               {"next_internal_id", r.next_internal_id},
               {"items", std::move(items)}});
}

std::string Encode(const BackfillRecord& r) {
  return Dump({{"format", kFormat},
               {"generation", r.generation},
               {"head_generation", r.head_generation},
               {"ordered", r.ordered},
               {"paused", r.paused},
               {"ordered_sequence", r.ordered_sequence},
               {"started_us", r.started_us},
               {"embed_rate", r.embed_rate},
               {"p99_ms_max", r.p99_ms_max}});
}

std::string Encode(const RequestRecord& r) {
  Json json = {{"format", kFormat},
               {"method", r.method},
               {"fingerprint", r.fingerprint},
               {"collection", r.collection},
               {"generation", r.generation},
               {"previous_generation", r.previous_generation},
               {"out_of_reach", r.out_of_reach},
               {"time_us", r.time_us}};
  if (r.version != 0) json["version"] = r.version;
  if (!r.job.empty()) json["job"] = r.job;
  return Dump(json);
}

std::string Encode(const AuditRecord& r) {
  Json json = {{"format", kFormat},
               {"collection", r.collection},
               {"generation", r.generation},
               {"previous_generation", r.previous_generation},
               {"forced", r.forced},
               {"reason", r.reason},
               {"out_of_reach", r.out_of_reach},
               {"time_us", r.time_us}};
  if (r.rollback) json["rollback"] = true;
  if (!r.request_id.empty()) json["request_id"] = r.request_id;
  if (!r.operator_name.empty()) json["operator_name"] = r.operator_name;
  if (r.validated) json["validated"] = true;
  if (r.retired) json["retired"] = true;
  if (r.canary_share) {
    json["format"] = kFormatOfCanaries;
    json["canary_share"] = *r.canary_share;
  }
  return Dump(json);
}

namespace {

void ReadCanary(FieldReader& reader, CollectionRecord* r) {
  const Json* json = reader.Has("canary") ? reader.Find("canary") : nullptr;
  if (json == nullptr) return;
  if (!json->is_object()) return reader.Fail("canary");
  FieldReader canary("collection", *json);
  canary.Read("generation", &r->canary_generation);
  canary.Read("share", &r->canary_share);
  canary.Read("began_us", &r->canary_us);
  const bool right = canary.status().ok() && r->canary_generation >= 1 && r->canary_generation <= r->last_generation &&
                     r->canary_share > 0 && r->canary_share <= 1;
  if (!right) reader.Fail("canary");
}

bool ReadPayloadFields(const Json& json, std::vector<PayloadField>* fields) {
  if (!json.is_array() || json.size() > kPayloadFieldsMax) return false;
  for (const Json& one : json) {
    if (!one.is_object() || !one.contains("path") || !one["path"].is_string()) return false;
    if (!one.contains("type") || !one["type"].is_string()) return false;
    const auto type = ParsePayloadType(one["type"].get_ref<const std::string&>(), "type");
    if (!type.ok()) return false;
    fields->push_back({one["path"].get<std::string>(), *type});
  }
  return CheckPayloadFields(*fields, "payload_fields").ok();
}

}  // namespace

absl::StatusOr<CollectionRecord> DecodeCollection(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("collection", bytes, kFormatOfCanaries));
  CollectionRecord r;
  FieldReader reader("collection", json);
  reader.Read("name", &r.name);
  reader.Read("metric", &r.metric);
  reader.Read("curvature", &r.curvature);
  reader.Read("active_generation", &r.active_generation);
  reader.Read("last_generation", &r.last_generation);
  reader.Read("created_us", &r.created_us);
  if (const Json* aliases = reader.Find("aliases")) {
    if (!aliases->is_array()) reader.Fail("aliases");
    for (const Json& alias : *aliases) {
      if (!alias.is_string()) {
        reader.Fail("aliases");
        break;
      }
      r.aliases.push_back(alias.get<std::string>());
    }
  }
  const Json* index = reader.Find("index");
  if (index != nullptr && !index->is_object()) reader.Fail("index");
  if (reader.Has("last_adapter_version")) reader.Read("last_adapter_version", &r.last_adapter_version);
  if (const Json* earlier = reader.Has("earlier_active") ? reader.Find("earlier_active") : nullptr) {
    if (!earlier->is_array() || earlier->size() > kEarlierActiveMax) {
      reader.Fail("earlier_active");
    } else {
      for (const Json& generation : *earlier) {
        const bool known = generation.is_number_unsigned() && generation.get<uint64_t>() >= 1 &&
                           generation.get<uint64_t>() <= r.last_generation;
        if (!known) {
          reader.Fail("earlier_active");
          break;
        }
        r.earlier_active.push_back(generation.get<uint32_t>());
      }
    }
  }
  if (const Json* sets = reader.Has("probe_sets") ? reader.Find("probe_sets") : nullptr) {
    if (!sets->is_object()) reader.Fail("probe_sets");
    for (const auto& [name, put_us] : sets->items()) {
      if (!put_us.is_number_integer()) reader.Fail("probe_sets");
      if (!reader.status().ok()) break;
      r.probe_sets[name] = put_us.get<int64_t>();
    }
  }
  if (const Json* fields = reader.Has("payload_fields") ? reader.Find("payload_fields") : nullptr) {
    if (!ReadPayloadFields(*fields, &r.payload_fields)) reader.Fail("payload_fields");
  }
  ReadCanary(reader, &r);
  if (r.active_generation > r.last_generation) reader.Fail("active_generation");
  if (!(r.curvature >= kCurvatureMin && r.curvature <= kCurvatureMax)) reader.Fail("curvature");
  LC_RETURN_IF_ERROR(reader.status());
  LC_ASSIGN_OR_RETURN(r.index, IndexFromJson(*index));
  return r;
}

absl::StatusOr<GenerationRecord> DecodeGeneration(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("generation", bytes, kFormatOfCanaries));
  GenerationRecord r;
  FieldReader reader("generation", json);
  reader.Read("generation", &r.generation);
  reader.Read("parent", &r.parent);
  reader.Read("metric", &r.space.metric);
  reader.Read("dimension", &r.space.dimension);
  reader.Read("curvature", &r.space.curvature);
  reader.Read("clip_radius", &r.space.clip_radius);
  reader.Read("method", &r.method);
  reader.Read("has_encoder", &r.has_encoder);
  reader.Read("retired", &r.retired);
  reader.Read("registered_us", &r.registered_us);
  reader.Read("manifest_json", &r.manifest_json);
  if (reader.Has("activated_us")) {
    int64_t activated = 0;
    reader.Read("activated_us", &activated);
    r.activated_us = activated;
  }
  if (reader.Has("activated_by")) reader.Read("activated_by", &r.activated_by);
  if (reader.Has("compatible_prefix")) reader.Read("compatible_prefix", &r.compatible_prefix);
  if (r.compatible_prefix < 0 || r.compatible_prefix > r.space.dimension) reader.Fail("compatible_prefix");
  if (r.generation == 0 || r.parent >= r.generation) reader.Fail("parent");
  if (reader.Has("removed")) reader.Read("removed", &r.removed);
  if (reader.Has("draft")) reader.Read("draft", &r.draft);
  std::string validation;
  if (reader.Has("validation_json")) reader.Read("validation_json", &validation);
  LC_RETURN_IF_ERROR(reader.status());
  const absl::Status valid = r.space.Validate();
  if (!valid.ok()) return DataLoss(StrCat("generation record: ", MessageOf(valid)));
  if (validation.empty()) return r;
  LC_ASSIGN_OR_RETURN(ValidationReport report, DecodeValidation(validation));
  r.validation = std::make_shared<const ValidationReport>(std::move(report));
  return r;
}

absl::StatusOr<AdapterRecord> DecodeAdapterRecord(std::string_view bytes) {
  const size_t line = std::min(bytes.find('\n'), bytes.size());
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("adapter", bytes.substr(0, line)));
  AdapterRecord r;
  FieldReader reader("adapter", json);
  uint64_t file_bytes = 0;
  reader.Read("from_generation", &r.from);
  reader.Read("to_generation", &r.to);
  reader.Read("version", &r.version);
  reader.Read("put_us", &r.put_us);
  reader.Read("file_bytes", &file_bytes);
  if (r.from == 0 || r.to == 0 || r.from == r.to) reader.Fail("from_generation");
  if (line == bytes.size() || bytes.size() - line - 1 != file_bytes) reader.Fail("file_bytes");
  LC_RETURN_IF_ERROR(reader.status());
  r.file = std::string(bytes.substr(line + 1));
  return r;
}

absl::StatusOr<ProgressRecord> DecodeProgress(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("progress", bytes));
  ProgressRecord r;
  FieldReader reader("progress", json);
  reader.Read("sequence", &r.sequence);
  reader.Read("next_internal_id", &r.next_internal_id);
  const Json* items = reader.Find("items");
  if (items != nullptr && !items->is_array()) reader.Fail("items");
  LC_RETURN_IF_ERROR(reader.status());
  for (const Json& entry : *items) {
    std::vector<uint32_t> generations;
    if (!entry.is_object() || !entry.contains("generations") || !ReadGenerations(entry["generations"], &generations) ||
        !entry.contains("count") || !entry["count"].is_number_unsigned()) {
      return DataLoss("progress record: field 'items' is missing or damaged");
    }
    r.items[generations] = entry["count"].get<uint64_t>();
  }
  return r;
}

absl::StatusOr<BackfillRecord> DecodeBackfill(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("backfill", bytes));
  BackfillRecord r;
  FieldReader reader("backfill", json);
  reader.Read("generation", &r.generation);
  reader.Read("head_generation", &r.head_generation);
  reader.Read("ordered", &r.ordered);
  reader.Read("paused", &r.paused);
  reader.Read("ordered_sequence", &r.ordered_sequence);
  reader.Read("started_us", &r.started_us);
  if (json.contains("embed_rate")) {  // records of older servers have neither
    reader.Read("embed_rate", &r.embed_rate);
    reader.Read("p99_ms_max", &r.p99_ms_max);
  }
  if (r.generation == 0) reader.Fail("generation");
  LC_RETURN_IF_ERROR(reader.status());
  return r;
}

absl::StatusOr<RequestRecord> DecodeRequest(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("request", bytes));
  RequestRecord r;
  FieldReader reader("request", json);
  reader.Read("method", &r.method);
  reader.Read("fingerprint", &r.fingerprint);
  reader.Read("collection", &r.collection);
  reader.Read("generation", &r.generation);
  reader.Read("previous_generation", &r.previous_generation);
  reader.Read("out_of_reach", &r.out_of_reach);
  reader.Read("time_us", &r.time_us);
  if (reader.Has("version")) reader.Read("version", &r.version);
  if (reader.Has("job")) reader.Read("job", &r.job);
  LC_RETURN_IF_ERROR(reader.status());
  return r;
}

absl::StatusOr<AuditRecord> DecodeAudit(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("audit", bytes, kFormatOfCanaries));
  AuditRecord r;
  FieldReader reader("audit", json);
  reader.Read("collection", &r.collection);
  reader.Read("generation", &r.generation);
  reader.Read("previous_generation", &r.previous_generation);
  reader.Read("forced", &r.forced);
  reader.Read("reason", &r.reason);
  reader.Read("out_of_reach", &r.out_of_reach);
  reader.Read("time_us", &r.time_us);
  if (reader.Has("rollback")) reader.Read("rollback", &r.rollback);
  if (reader.Has("request_id")) reader.Read("request_id", &r.request_id);
  if (reader.Has("operator_name")) reader.Read("operator_name", &r.operator_name);
  if (reader.Has("retired")) reader.Read("retired", &r.retired);
  if (reader.Has("validated")) reader.Read("validated", &r.validated);
  if (reader.Has("canary_share")) reader.Read("canary_share", &r.canary_share.emplace());
  LC_RETURN_IF_ERROR(reader.status());
  return r;
}

std::string BackfillName(uint32_t collection) { return StrCat("backfill/", collection); }
std::string BackfillHeadName(uint32_t collection) { return StrCat("backfill_head/", collection); }
std::string ProgressName(uint32_t collection) { return StrCat("progress/", collection); }
std::string RequestName(std::string_view request_id) { return StrCat(kRequestPrefix, request_id); }
std::string DroppingName(uint32_t collection) { return StrCat(kDroppingPrefix, collection); }
std::string AuditName(int64_t time_us, uint32_t collection) { return StrCat(kAuditPrefix, time_us, "/", collection); }

absl::StatusOr<uint32_t> ParseNumber(std::string_view text, std::string_view what) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return DataLoss(StrCat(what, ": not a number"));
  return number;
}

}  // namespace lightcone::server
