#include "server/engine/collection/meta.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "server/engine/collection/record_json.h"
#include "server/engine/filter/payload_path.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr auto kCollectionFields = [](auto& f, auto& r) {
  f.Field("name", r.name);
  f.Field("metric", r.metric);
  f.Field("curvature", r.curvature);
  f.Field("active_generation", r.active_generation);
  f.Field("last_generation", r.last_generation);
  f.Field("created_us", r.created_us);
  f.Optional("last_adapter_version", r.last_adapter_version);
  f.Optional("require_generation", r.require_generation);
  f.Optional("default_ttl_ms", r.default_ttl_ms);
  f.Optional("foreign_vectors", r.foreign_vectors);
  f.Check("foreign_vectors", r.foreign_vectors <= ForeignVectors::kIgnore);
  f.Optional("scale_generation", r.scale_generation);
  f.Check("scale_generation", r.scale_generation <= r.last_generation);
};

constexpr auto kGenerationFields = [](auto& f, auto& r) {
  f.Field("generation", r.generation);
  f.Field("parent", r.parent);
  f.Field("metric", r.space.metric);
  f.Field("dimension", r.space.dimension);
  f.Field("curvature", r.space.curvature);
  f.Field("clip_radius", r.space.clip_radius);
  f.Field("method", r.method);
  f.Field("has_encoder", r.has_encoder);
  f.Field("retired", r.retired);
  f.Field("registered_us", r.registered_us);
  f.Field("manifest_json", r.manifest_json);
  f.Optional("compatible_prefix", r.compatible_prefix);
  f.Optional("activated_us", r.activated_us);
  f.Optional("activated_by", r.activated_by);
  f.Optional("removed", r.removed);
  f.Optional("draft", r.draft);
  f.Optional("endpoint", r.endpoint);
  f.Optional("model", r.model);
  f.Optional("revision", r.revision);
};

constexpr auto kAdapterFields = [](auto& f, auto& r) {
  f.Field("from_generation", r.from);
  f.Field("to_generation", r.to);
  f.Field("version", r.version);
  f.Field("put_us", r.put_us);
};

constexpr auto kBackfillFields = [](auto& f, auto& r) {
  f.Field("generation", r.generation);
  f.Field("head_generation", r.head_generation);
  f.Field("ordered", r.ordered);
  f.Field("paused", r.paused);
  f.Field("ordered_sequence", r.ordered_sequence);
  f.Field("started_us", r.started_us);
  f.Later("embed_rate", r.embed_rate);
  f.Later("p99_ms_max", r.p99_ms_max);
  f.Optional("ahead", r.ahead);
  f.Check("generation", r.generation != 0);
};

constexpr auto kRequestFields = [](auto& f, auto& r) {
  f.Field("method", r.method);
  f.Field("fingerprint", r.fingerprint);
  f.Field("collection", r.collection);
  f.Field("generation", r.generation);
  f.Field("previous_generation", r.previous_generation);
  f.Field("out_of_reach", r.out_of_reach);
  f.Field("time_us", r.time_us);
  f.Optional("version", r.version);
  f.Optional("job", r.job);
  f.Optional("items", r.items);
  f.Optional("sequence", r.sequence);
};

constexpr auto kAuditFields = [](auto& f, auto& r) {
  f.Field("collection", r.collection);
  f.Field("generation", r.generation);
  f.Field("previous_generation", r.previous_generation);
  f.Field("forced", r.forced);
  f.Field("reason", r.reason);
  f.Field("out_of_reach", r.out_of_reach);
  f.Field("time_us", r.time_us);
  f.Optional("rollback", r.rollback);
  f.Optional("request_id", r.request_id);
  f.Optional("operator_name", r.operator_name);
  f.Optional("validated", r.validated);
  f.Optional("retired", r.retired);
  f.Optional("canary_share", r.canary_share);
};

Json ToJson(const IndexSettings& settings) {
  Json json;
  ForEachIndexSetting([&]<typename T>(const IndexSetting<T>& one) {
    if constexpr (std::is_enum_v<T>) {
      json[one.name] = SettingName(settings.*one.setting);
    } else {
      json[one.name] = settings.*one.setting;
    }
  });
  if (settings.rebuild > 0) json["rebuild"] = settings.rebuild;
  return json;
}

// A setting that the record does not have is at its default.
absl::StatusOr<IndexSettings> IndexFromJson(const Json& json) {
  IndexSettings settings;
  FieldReader reader("collection", json);
  ForEachIndexSetting([&]<typename T>(const IndexSetting<T>& one) {
    if (!reader.Has(one.name)) return;
    if constexpr (std::is_enum_v<T>) {
      std::string name;
      reader.Read(one.name, &name);
      const std::optional<T> known = ParseSettingName<T>(name);
      if (!known) return reader.Fail(one.name);
      settings.*one.setting = *known;
    } else {
      reader.Read(one.name, &(settings.*one.setting));
    }
  });
  if (reader.Has("rebuild")) reader.Read("rebuild", &settings.rebuild);
  LC_RETURN_IF_ERROR(reader.status());
  const absl::Status valid = settings.Validate();
  if (!valid.ok()) return DataLoss(StrCat("collection record: ", MessageOf(valid)));
  return settings;
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
  const bool has_words = std::any_of(r.payload_fields.begin(), r.payload_fields.end(), [](const PayloadField& field) {
    return field.type == PayloadType::kText || field.type == PayloadType::kGeo;
  });
  FieldWriter out(has_words ? kFormatOfWords : r.canary_generation != 0 ? kFormatOfCanaries : kFormat);
  kCollectionFields(out, r);
  Json& json = out.json();
  json["index"] = ToJson(r.index);
  json["aliases"] = r.aliases;
  if (!r.earlier_active.empty()) json["earlier_active"] = r.earlier_active;
  if (!r.probe_sets.empty()) json["probe_sets"] = r.probe_sets;
  if (r.canary_generation != 0) {
    json["canary"] = {{"generation", r.canary_generation}, {"share", r.canary_share}, {"began_us", r.canary_us}};
  }
  if (r.strict_mode != StrictMode()) {
    ForEachStrictMember([&](const char* name, auto member, const char*) {
      if (r.strict_mode.*member) json["strict_mode"][name] = *(r.strict_mode.*member);
    });
  }
  for (const PayloadField& field : r.payload_fields) {
    json["payload_fields"].push_back({{"path", field.path}, {"type", PayloadTypeName(field.type)}});
  }
  return Dump(json);
}

std::string Encode(const GenerationRecord& r) {
  FieldWriter out(r.draft ? kFormatOfCanaries : kFormat);
  kGenerationFields(out, r);
  if (r.validation != nullptr) out.json()["validation_json"] = Encode(*r.validation);
  return Dump(out.json());
}

std::string Encode(const AdapterRecord& r) {
  FieldWriter out;
  kAdapterFields(out, r);
  out.json()["file_bytes"] = r.file.size();
  return Dump(out.json()) + "\n" + r.file;
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

std::string Encode(const BackfillRecord& r) { return EncodeFields(r, kBackfillFields); }
std::string Encode(const RequestRecord& r) { return EncodeFields(r, kRequestFields); }
std::string Encode(const AuditRecord& r) {
  return EncodeFields(r, kAuditFields, r.canary_share ? kFormatOfCanaries : kFormat);
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

void ReadStrictMode(FieldReader& reader, StrictMode* strict) {
  const Json* json = reader.Has("strict_mode") ? reader.Find("strict_mode") : nullptr;
  if (json == nullptr) return;
  if (!json->is_object()) return reader.Fail("strict_mode");
  FieldReader members("collection", *json);
  ForEachStrictMember([&](const char* name, auto member, const char*) { members.Optional(name, strict->*member); });
  if (!members.status().ok()) reader.Fail("strict_mode");
}

bool ReadPayloadFields(const Json& json, std::vector<PayloadField>* fields) {
  if (!json.is_array() || json.size() > kPayloadFieldsMax) return false;
  for (const Json& one : json) {
    if (!one.is_object() || !one.contains("path") || !one["path"].is_string()) return false;
    if (!one.contains("type") || !one["type"].is_string()) return false;
    const auto type = ParsePayloadType(one["type"].get_ref<const std::string&>(), "type");
    if (!type.ok()) return false;
    std::string path = one["path"].get<std::string>();
    // An older server took a double quote for a part of a key.
    if (!ParsePayloadPath(path, "path").ok()) path = PathText(PathKeys(absl::StrSplit(path, '.')));
    fields->push_back({std::move(path), *type});
  }
  return CheckPayloadFields(*fields, "payload_fields").ok();
}

}  // namespace

absl::StatusOr<CollectionRecord> DecodeCollection(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("collection", bytes, kFormatOfWords));
  CollectionRecord r;
  FieldReader reader("collection", json);
  kCollectionFields(reader, r);
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
  ReadStrictMode(reader, &r.strict_mode);
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
  kGenerationFields(reader, r);
  if (r.compatible_prefix < 0 || r.compatible_prefix > r.space.dimension) reader.Fail("compatible_prefix");
  if (r.generation == 0 || r.parent >= r.generation) reader.Fail("parent");
  std::string validation;
  reader.Optional("validation_json", validation);
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
  kAdapterFields(reader, r);
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
  return DecodeFields<BackfillRecord>("backfill", bytes, kBackfillFields);
}

absl::StatusOr<RequestRecord> DecodeRequest(std::string_view bytes) {
  return DecodeFields<RequestRecord>("request", bytes, kRequestFields);
}

absl::StatusOr<AuditRecord> DecodeAudit(std::string_view bytes) {
  return DecodeFields<AuditRecord>("audit", bytes, kAuditFields, kFormatOfCanaries);
}

std::string BackfillName(uint32_t collection) { return StrCat("backfill/", collection); }
std::string BackfillHeadName(uint32_t collection) { return StrCat("backfill_head/", collection); }
std::string ProgressName(uint32_t collection) { return StrCat("progress/", collection); }
std::string RequestName(std::string_view request_id) { return StrCat(kRequestPrefix, request_id); }
std::string DroppingName(uint32_t collection) { return StrCat(kDroppingPrefix, collection); }
std::string AuditName(int64_t place, uint32_t collection) { return StrCat(kAuditPrefix, place, "/", collection); }

std::optional<std::pair<int64_t, uint32_t>> ParseAuditKey(std::string_view key) {
  const std::string prefix = keys::Meta(kAuditPrefix);
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  std::pair<int64_t, uint32_t> at;
  const char* const end = key.data() + key.size();
  const auto place = std::from_chars(key.data(), end, at.first);
  if (place.ec != std::errc() || place.ptr == end || *place.ptr != '/') return std::nullopt;
  const auto collection = std::from_chars(place.ptr + 1, end, at.second);
  if (collection.ec != std::errc() || collection.ptr != end) return std::nullopt;
  return at;
}

absl::StatusOr<uint32_t> ParseNumber(std::string_view text, std::string_view what) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return DataLoss(StrCat(what, ": not a number"));
  return number;
}

}  // namespace lightcone::server
