// Changes of payloads, facets, groups and orders, wire <-> engine.
#include <utility>

#include "base/status.h"
#include "server/rpc/convert.h"

namespace lightcone::server {
namespace {

constexpr uint32_t kFacetValuesDefault = 10;

absl::StatusOr<PayloadChange> ChangeOf(v1::PayloadChange change) {
  switch (change) {
    case v1::PAYLOAD_CHANGE_SET:
      return PayloadChange::kSet;
    case v1::PAYLOAD_CHANGE_OVERWRITE:
      return PayloadChange::kOverwrite;
    case v1::PAYLOAD_CHANGE_DELETE_KEYS:
      return PayloadChange::kDeleteKeys;
    case v1::PAYLOAD_CHANGE_CLEAR:
      return PayloadChange::kClear;
    default:
      break;
  }
  return InvalidField("change", StrCat(static_cast<int>(change)),
                      "PAYLOAD_CHANGE_SET (1), PAYLOAD_CHANGE_OVERWRITE (2), PAYLOAD_CHANGE_DELETE_KEYS (3), "
                      "PAYLOAD_CHANGE_CLEAR (4)");
}

}  // namespace

void ToWire(const FieldValue& value, v1::FilterValue* out) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    out->set_text(*text);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    out->set_integer(*integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    out->set_number(*number);
  } else {
    out->set_boolean(std::get<bool>(value));
  }
}

absl::StatusOr<ChangePayloadCall> FromWire(const v1::ChangePayloadRequest& request) {
  ChangePayloadCall call;
  call.collection = request.collection();
  LC_ASSIGN_OR_RETURN(call.change, ChangeOf(request.change()));
  call.payload_json = request.payload_json();
  call.key = request.key();
  call.keys.assign(request.keys().begin(), request.keys().end());
  LC_ASSIGN_OR_RETURN(call.ids, FromWire(request.ids()));
  LC_ASSIGN_OR_RETURN(call.filter, FilterOf(request));
  call.limit = request.limit();
  call.token = request.token();
  LC_ASSIGN_OR_RETURN(call.durability, FromWire(request.durability()));
  return call;
}

void ToWire(const ChangePayloadAnswer& answer, Durability durability, v1::ChangePayloadResponse* out) {
  out->set_sequence(answer.sequence);
  out->set_changed(answer.changed);
  for (const ItemId& id : answer.missing) ToWire(id, out->add_missing());
  out->set_durability(ToWire(durability));
  out->set_token(answer.token);
}

absl::StatusOr<FacetCall> FromWire(const v1::FacetRequest& request) {
  FacetCall call;
  call.collection = request.collection();
  call.field = request.field();
  LC_ASSIGN_OR_RETURN(call.filter, FilterOf(request));
  call.limit = request.limit() == 0 ? kFacetValuesDefault : request.limit();
  return call;
}

void ToWire(const FacetAnswer& answer, v1::FacetResponse* out) {
  for (const auto& [value, count] : answer.values) {
    v1::FacetResponse::Value* to = out->add_values();
    ToWire(value, to->mutable_value());
    to->set_count(count);
  }
  out->set_distinct(answer.distinct);
}

GroupBy FromWire(const v1::GroupBy& group_by) {
  GroupBy by;
  by.field = group_by.field();
  if (group_by.groups() != 0) by.groups = group_by.groups();
  if (group_by.group_size() != 0) by.group_size = group_by.group_size();
  return by;
}

absl::StatusOr<OrderBy> FromWire(const v1::OrderBy& order_by) {
  OrderBy order;
  order.field = order_by.field();
  order.descending = order_by.descending();
  if (order_by.has_start_from()) {
    LC_ASSIGN_OR_RETURN(order.start_from, FromWire(order_by.start_from(), "order_by.start_from"));
  }
  return order;
}

}  // namespace lightcone::server
