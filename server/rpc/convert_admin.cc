// Collections and generations, wire <-> engine.
#include <algorithm>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "index/gpu/serving_device.h"
#include "server/rpc/convert.h"

namespace lightcone::server {
namespace {

// The wire's fields of index settings, by the names of the table; nullptr: the wire does not have the setting.
const google::protobuf::FieldDescriptor* WireField(const char* name) {
  return v1::IndexSettings::descriptor()->FindFieldByName(name);
}

// A wire enum numbers its values as the engine's does, from 1 on; 0 is not set.
template <typename Enum>
absl::Status Read(const v1::IndexSettings& settings, const google::protobuf::FieldDescriptor& field,
                  std::optional<Enum>* out) requires std::is_enum_v<Enum> {
  const int number = settings.GetReflection()->GetEnumValue(settings, &field);
  if (number == 0) return absl::OkStatus();
  *out = static_cast<Enum>(number - 1);
  if (!SettingName(**out).empty()) return absl::OkStatus();
  std::string allowed;
  for (int i = 1; i < field.enum_type()->value_count(); ++i) {
    allowed += StrCat(field.enum_type()->value(i)->name(), " (", field.enum_type()->value(i)->number(), "), ");
  }
  return InvalidField(StrCat("index.", field.name()), StrCat(number), StrCat(allowed, "or 0 for the default"));
}

template <typename Number>
absl::Status Read(const v1::IndexSettings& settings, const google::protobuf::FieldDescriptor& field,
                  std::optional<Number>* out) requires std::is_integral_v<Number> {
  const auto* reflection = settings.GetReflection();
  const uint64_t value =
      sizeof(Number) == 8 ? reflection->GetUInt64(settings, &field) : reflection->GetUInt32(settings, &field);
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<Number>::max());
  if (value > kMost) return InvalidField(StrCat("index.", field.name()), StrCat(value), StrCat("at most ", kMost));
  if (value != 0) *out = static_cast<Number>(value);
  return absl::OkStatus();
}

absl::Status Read(const v1::IndexSettings& settings, const google::protobuf::FieldDescriptor& field,
                  std::optional<double>* out) {
  const double value = settings.GetReflection()->GetDouble(settings, &field);
  if (value != 0) *out = value;
  return absl::OkStatus();
}

template <typename T>
void Write(T value, const google::protobuf::FieldDescriptor& field, v1::IndexSettings* out) {
  const auto* reflection = out->GetReflection();
  if constexpr (std::is_enum_v<T>) {
    reflection->SetEnumValue(out, &field, static_cast<int>(value) + 1);
  } else if constexpr (std::is_floating_point_v<T>) {
    reflection->SetDouble(out, &field, value);
  } else if constexpr (sizeof(T) == 8) {
    reflection->SetUInt64(out, &field, static_cast<uint64_t>(value));
  } else {
    reflection->SetUInt32(out, &field, static_cast<uint32_t>(value));
  }
}

v1::Geometry GeometryOf(Metric metric) {
  switch (metric) {
    case Metric::kLorentz:
      return v1::GEOMETRY_LORENTZ;
    case Metric::kCosine:
      return v1::GEOMETRY_COSINE;
    case Metric::kInnerProduct:
      return v1::GEOMETRY_INNER_PRODUCT;
    case Metric::kEuclidean:
      return v1::GEOMETRY_EUCLIDEAN;
  }
  return v1::GEOMETRY_UNSPECIFIED;
}

v1::GenerationState StateOf(GenerationState state) {
  switch (state) {
    case GenerationState::kDraft:
      return v1::GENERATION_STATE_DRAFT;
    case GenerationState::kRegistered:
      return v1::GENERATION_STATE_REGISTERED;
    case GenerationState::kValidated:
      return v1::GENERATION_STATE_VALIDATED;
    case GenerationState::kActive:
      return v1::GENERATION_STATE_ACTIVE;
    case GenerationState::kRetired:
      return v1::GENERATION_STATE_RETIRED;
  }
  return v1::GENERATION_STATE_UNSPECIFIED;
}

constexpr std::pair<v1::PayloadType, PayloadType> kPayloadTypes[] = {
    {v1::PAYLOAD_TYPE_KEYWORD, PayloadType::kKeyword}, {v1::PAYLOAD_TYPE_INTEGER, PayloadType::kInteger},
    {v1::PAYLOAD_TYPE_FLOAT, PayloadType::kFloat},     {v1::PAYLOAD_TYPE_BOOLEAN, PayloadType::kBoolean},
    {v1::PAYLOAD_TYPE_TIME, PayloadType::kTime},       {v1::PAYLOAD_TYPE_TEXT, PayloadType::kText},
    {v1::PAYLOAD_TYPE_GEO, PayloadType::kGeo}};

absl::StatusOr<std::vector<PayloadField>> FieldsOf(const google::protobuf::RepeatedPtrField<v1::PayloadField>& fields,
                                                   std::string_view list) {
  std::vector<PayloadField> out;
  for (const v1::PayloadField& field : fields) {
    const auto known = std::find_if(std::begin(kPayloadTypes), std::end(kPayloadTypes),
                                    [&](const auto& pair) { return pair.first == field.type(); });
    if (known == std::end(kPayloadTypes)) {
      return InvalidField(
          StrCat(list, "[", out.size(), "].type"), StrCat(static_cast<int>(field.type())),
          "PAYLOAD_TYPE_KEYWORD (1), PAYLOAD_TYPE_INTEGER (2), PAYLOAD_TYPE_FLOAT (3), "
          "PAYLOAD_TYPE_BOOLEAN (4), PAYLOAD_TYPE_TIME (5), PAYLOAD_TYPE_TEXT (6), PAYLOAD_TYPE_GEO (7)");
    }
    out.push_back({field.path(), known->second});
  }
  return out;
}

void ToWire(const PayloadIndexStatus& status, v1::CollectionInfo::PayloadIndex* out) {
  out->mutable_field()->set_path(status.field.path);
  for (const auto& [wire, type] : kPayloadTypes) {
    if (type == status.field.type) out->mutable_field()->set_type(wire);
  }
  out->set_ready(status.ready);
  out->set_items(status.items);
  out->set_bytes(status.bytes);
  out->set_error(MessageOf(status.error));
}

}  // namespace

absl::StatusOr<Metric> FromWire(v1::Geometry geometry) {
  switch (geometry) {
    case v1::GEOMETRY_LORENTZ:
      return Metric::kLorentz;
    case v1::GEOMETRY_COSINE:
      return Metric::kCosine;
    case v1::GEOMETRY_INNER_PRODUCT:
      return Metric::kInnerProduct;
    case v1::GEOMETRY_EUCLIDEAN:
      return Metric::kEuclidean;
    default:
      break;
  }
  return InvalidField("geometry", StrCat(static_cast<int>(geometry)),
                      "GEOMETRY_LORENTZ (1), GEOMETRY_COSINE (2), GEOMETRY_INNER_PRODUCT (3), GEOMETRY_EUCLIDEAN (4)");
}

absl::StatusOr<IndexChange> FromWire(const v1::IndexSettings& settings) {
  IndexChange out;
  absl::Status status;
  ForEachIndexSetting([&](const auto& one) {
    const auto* field = WireField(one.name);
    if (field != nullptr && status.ok()) status = Read(settings, *field, &(out.*one.change));
  });
  LC_RETURN_IF_ERROR(status);
  return out;
}

namespace {

absl::StatusOr<ForeignVectors> FromWire(v1::ForeignVectors foreign_vectors) {
  if (foreign_vectors < v1::FOREIGN_VECTORS_WARN || foreign_vectors > v1::FOREIGN_VECTORS_IGNORE) {
    return InvalidField("foreign_vectors", StrCat(foreign_vectors), "a value of ForeignVectors");
  }
  return static_cast<ForeignVectors>(foreign_vectors - v1::FOREIGN_VECTORS_WARN);
}

v1::ForeignVectors ToWire(ForeignVectors foreign_vectors) {
  return static_cast<v1::ForeignVectors>(static_cast<int>(foreign_vectors) + v1::FOREIGN_VECTORS_WARN);
}

void ToWire(const ModelWatchStatus::Stream& stream, v1::CollectionInfo::ModelWatch::Stream* out) {
  out->set_foreign(static_cast<uint64_t>(stream.foreign));
  out->mutable_alarms()->Assign(stream.alarms.begin(), stream.alarms.end());
}

void ToWire(const ModelWatchStatus& status, v1::CollectionInfo::ModelWatch* out) {
  out->set_generation(status.generation);
  out->set_rows_learnt(static_cast<uint64_t>(status.rows_learnt));
  out->set_tells_directions(status.tells_directions);
  ToWire(status.rows, out->mutable_rows());
  ToWire(status.queries, out->mutable_queries());
}

const google::protobuf::FieldDescriptor* StrictField(const char* name) {
  return v1::StrictMode::descriptor()->FindFieldByName(name);
}

StrictMode FromWire(const v1::StrictMode& wire) {
  StrictMode strict;
  const auto* reflection = wire.GetReflection();
  ForEachStrictMember([&]<typename T>(const char* name, std::optional<T> StrictMode::*member, const char*) {
    const auto* field = StrictField(name);
    if (!reflection->HasField(wire, field)) return;
    if constexpr (std::is_same_v<T, bool>) {
      strict.*member = reflection->GetBool(wire, field);
    } else {
      strict.*member = reflection->GetUInt32(wire, field);
    }
  });
  return strict;
}

void ToWire(const StrictMode& strict, v1::StrictMode* wire) {
  const auto* reflection = wire->GetReflection();
  ForEachStrictMember([&]<typename T>(const char* name, std::optional<T> StrictMode::*member, const char*) {
    if (!(strict.*member)) return;
    if constexpr (std::is_same_v<T, bool>) {
      reflection->SetBool(wire, StrictField(name), *(strict.*member));
    } else {
      reflection->SetUInt32(wire, StrictField(name), *(strict.*member));
    }
  });
}

}  // namespace

absl::StatusOr<CreateCollectionCall> FromWire(const v1::CreateRequest& request, const IndexSettings& defaults) {
  CreateCollectionCall call;
  call.request_id = request.request_id();
  call.name = request.name();
  LC_ASSIGN_OR_RETURN(call.metric, FromWire(request.geometry()));
  if (request.curvature() != 0) {
    if (call.metric != Metric::kLorentz) {
      return InvalidField("curvature", StrCat(request.curvature()), "0: only GEOMETRY_LORENTZ has a curvature");
    }
    call.curvature = request.curvature();
  }
  LC_ASSIGN_OR_RETURN(call.index, FromWire(request.index()));
  call.index_defaults = defaults;
  LC_ASSIGN_OR_RETURN(call.payload_fields, FieldsOf(request.payload_fields(), "payload_fields"));
  call.require_generation = request.require_generation();
  LC_ASSIGN_OR_RETURN(call.default_ttl_ms, TtlOf(request.default_ttl_ms(), "default_ttl_ms"));
  if (request.foreign_vectors() != v1::FOREIGN_VECTORS_UNSPECIFIED) {
    LC_ASSIGN_OR_RETURN(call.foreign_vectors, FromWire(request.foreign_vectors()));
  }
  call.strict_mode = FromWire(request.strict_mode());
  return call;
}

absl::StatusOr<int64_t> TtlOf(uint64_t ttl_ms, std::string_view field) {
  if (ttl_ms <= uint64_t{kTtlMaxMs}) return static_cast<int64_t>(ttl_ms);
  return InvalidField(field, StrCat(ttl_ms), StrCat("0 (items stay) .. ", kTtlMaxMs, " milliseconds"));
}

absl::StatusOr<UpdateCollectionCall> FromWire(const v1::UpdateRequest& request) {
  UpdateCollectionCall call{request.request_id(), request.collection(), std::nullopt};
  if (request.has_require_generation()) call.require_generation = request.require_generation();
  if (request.has_default_ttl_ms()) {
    LC_ASSIGN_OR_RETURN(call.default_ttl_ms, TtlOf(request.default_ttl_ms(), "default_ttl_ms"));
  }
  if (request.foreign_vectors() != v1::FOREIGN_VECTORS_UNSPECIFIED) {
    LC_ASSIGN_OR_RETURN(call.foreign_vectors, FromWire(request.foreign_vectors()));
  }
  if (request.has_scale_generation()) call.scale_generation = request.scale_generation();
  if (request.has_strict_mode()) call.strict_mode = FromWire(request.strict_mode());
  return call;
}

absl::StatusOr<IndexPayloadCall> FromWire(const v1::IndexPayloadRequest& request) {
  IndexPayloadCall call;
  call.request_id = request.request_id();
  call.collection = request.collection();
  LC_ASSIGN_OR_RETURN(call.add, FieldsOf(request.add(), "add"));
  call.drop.assign(request.drop().begin(), request.drop().end());
  call.wait = request.wait();
  return call;
}

RegisterCall FromWire(const v1::RegisterRequest& request) {
  RegisterCall call;
  call.request_id = request.request_id();
  call.collection = request.collection();
  call.manifest_json = request.manifest_json();
  call.encoder = request.encoder();
  call.parent = request.parent();
  call.expects_adapter = request.expects_adapter();
  call.draft = request.draft();
  return call;
}

PutAdapterCall FromWire(const v1::PutAdapterRequest& request) {
  return {request.request_id(), request.collection(), request.from_generation(), request.to_generation(),
          request.adapter()};
}

DropAdapterCall FromWire(const v1::DropAdapterRequest& request) {
  return {request.request_id(), request.collection(), request.from_generation(), request.to_generation(),
          request.force()};
}

namespace {

template <typename Request>
SwitchCall SwitchOf(const Request& request) {
  SwitchCall call{request.request_id(), request.collection(), request.force(), request.reason(), std::nullopt};
  call.operator_name = request.operator_name();
  if (request.has_expect_active()) call.expect_active = request.expect_active();
  return call;
}

}  // namespace

ActivateCall FromWire(const v1::ActivateRequest& request) { return {SwitchOf(request), request.generation()}; }

SwitchCall FromWire(const v1::RollbackRequest& request) { return SwitchOf(request); }

void ToWire(const AuditEntry& entry, v1::AuditEntry* out) {
  *out->mutable_time() = TimestampOf(entry.time);
  out->set_action(entry.retired        ? v1::AUDIT_ACTION_RETIRE
                  : entry.rollback     ? v1::AUDIT_ACTION_ROLLBACK
                  : entry.canary_share ? v1::AUDIT_ACTION_CANARY
                                       : v1::AUDIT_ACTION_ACTIVATE);
  out->set_generation(entry.generation);
  out->set_previous_generation(entry.previous_generation);
  out->set_forced(entry.forced);
  out->set_reason(entry.reason);
  out->set_out_of_reach(entry.out_of_reach);
  out->set_request_id(entry.request_id);
  out->set_validated(entry.validated);
  out->set_share(entry.canary_share.value_or(0));
  out->set_operator_name(entry.operator_name);
}

void ToWire(const CollectionStatus& status, v1::CollectionInfo* out) {
  out->set_name(status.name);
  out->set_geometry(GeometryOf(status.metric));
  if (status.metric == Metric::kLorentz) out->set_curvature(status.curvature);
  ForEachIndexSetting([&](const auto& one) {
    if (const auto* field = WireField(one.name)) Write(status.index.*one.setting, *field, out->mutable_index());
  });
  out->set_require_generation(status.require_generation);
  out->set_default_ttl_ms(static_cast<uint64_t>(status.default_ttl_ms));
  out->set_foreign_vectors(ToWire(status.foreign_vectors));
  out->set_scale_generation(status.scale_generation);
  if (status.strict_mode != StrictMode()) ToWire(status.strict_mode, out->mutable_strict_mode());
  for (const ModelWatchStatus& watched : status.model_watch) ToWire(watched, out->add_model_watch());
  out->set_index_choice(status.index_choice);
  if (!status.index_error.ok()) out->set_index_error(MessageOf(status.index_error));
  out->set_exact_scans(gpu::ServingDeviceText());
  out->set_active_generation(status.active_generation);
  out->set_items(status.items);
  for (const auto& [generation, items] : status.items_by_generation) {
    v1::CollectionInfo::GenerationShare* share = out->add_generations();
    share->set_generation(generation);
    share->set_items(items);
  }
  for (const SegmentInfo& segment : status.segments) {
    v1::CollectionInfo::Segment* to = out->add_segments();
    to->set_generation(segment.generation);
    to->set_id(segment.id);
    to->set_kind(segment.kind);
    to->set_codes(segment.codes);
    to->set_rows(segment.rows);
    to->set_dead_rows(segment.dead_rows);
    to->set_bytes(segment.bytes);
    to->set_default_breadth(static_cast<uint32_t>(segment.default_breadth));
    if (segment.default_recall) to->set_default_recall(*segment.default_recall);
  }
  for (const PayloadIndexStatus& one : status.payload_indexes) ToWire(one, out->add_payload_indexes());
  for (const std::string& alias : status.aliases) out->add_aliases(alias);
  *out->mutable_created() = TimestampOf(status.created);
  out->set_sequence(status.sequence);
  out->set_canary_generation(status.canary_generation);
  out->set_canary_share(status.canary_share);
}

void ToWire(const GenerationStatus& status, v1::GenerationInfo* out) {
  out->set_generation(status.generation);
  out->set_state(StateOf(status.state));
  out->set_parent(status.parent);
  out->set_dimension(status.space.dimension);
  if (status.space.metric == Metric::kLorentz) {
    out->set_curvature(status.space.curvature);
    out->set_clip_radius(status.space.clip_radius);
  }
  out->set_method(status.method);
  out->set_has_encoder(status.has_encoder);
  for (const uint32_t reach : status.reach) out->add_reach(reach);
  out->set_items(status.items);
  *out->mutable_registered() = TimestampOf(status.registered);
  if (status.activated.has_value()) *out->mutable_activated() = TimestampOf(*status.activated);
  out->set_manifest_json(status.manifest_json);
  out->set_compatible_prefix(static_cast<uint32_t>(status.compatible_prefix));
  if (status.validation == nullptr) return;
  ToWire(*status.validation, out->mutable_validation());
  out->mutable_validation()->set_outdated(status.validation_outdated);
}

void ToWire(const AdapterStatus& status, v1::AdapterInfo* out) {
  out->set_from_generation(status.from);
  out->set_to_generation(status.to);
  out->set_direction(status.direction == AdapterDirection::kQuery ? v1::ADAPTER_DIRECTION_QUERY
                                                                  : v1::ADAPTER_DIRECTION_ITEM);
  out->set_version(status.version);
  out->set_kind(std::string(AdapterKindName(status.kind)));
  out->set_input_dimension(static_cast<uint32_t>(status.input_dimension));
  out->set_output_dimension(static_cast<uint32_t>(status.output_dimension));
  out->set_width(static_cast<uint32_t>(status.width));
  out->set_loss(status.loss);
  out->set_pairs(static_cast<uint64_t>(status.pairs));
  out->set_held_out_error(status.held_out_error);
  out->set_matched(status.matched);
  out->set_bytes(static_cast<uint64_t>(status.bytes));
  out->set_crc32c(status.crc32c);
  *out->mutable_put() = TimestampOf(status.put);
}

}  // namespace lightcone::server
