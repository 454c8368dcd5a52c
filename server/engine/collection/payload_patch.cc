#include "server/engine/collection/payload_patch.h"

#include <utility>

#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/filter/payload_field.h"

namespace lightcone::server {
namespace {

absl::StatusOr<PathKeys> PatchedPath(const std::string& path, const std::string& field) {
  if (path.size() > kPayloadPathBytesMax) {
    return InvalidField(field, StrCat(path.size(), " bytes long"), StrCat("at most ", kPayloadPathBytesMax));
  }
  return ParsePayloadPath(path, field);
}

// What a change does not use must be left out, so that no caller believes in what it does not do.
absl::Status CheckParts(const ChangePayloadCall& call) {
  const bool gives = call.change == PayloadChange::kSet || call.change == PayloadChange::kOverwrite;
  const bool deletes = call.change == PayloadChange::kDeleteKeys;
  if (gives && call.payload_json.empty()) {
    return InvalidField("payload_json", "empty", "a JSON object where the change is SET or OVERWRITE");
  }
  if (!gives && !call.payload_json.empty()) {
    return InvalidField("payload_json", "given", "left out where the change is neither SET nor OVERWRITE");
  }
  if (call.change != PayloadChange::kSet && !call.key.empty()) {
    return InvalidField("key", StrCat("'", call.key, "'"), "left out where the change is not SET");
  }
  if (!deletes && !call.keys.empty()) {
    return InvalidField("keys", "given", "left out where the change is not DELETE_KEYS");
  }
  if (!deletes) return absl::OkStatus();
  return CheckCount(call.keys.size(), kPayloadFieldsMax, "keys");
}

}  // namespace

absl::StatusOr<PayloadPatch> PayloadPatch::Make(const ChangePayloadCall& call, int64_t payload_bytes_max) {
  LC_RETURN_IF_ERROR(CheckParts(call));
  PayloadPatch patch;
  patch.change_ = call.change;
  patch.payload_bytes_max_ = payload_bytes_max;
  if (!call.payload_json.empty()) {
    LC_RETURN_IF_ERROR(CheckPayload(call.payload_json, payload_bytes_max, "payload_json"));
    patch.text_ = call.payload_json;
    if (call.change == PayloadChange::kSet) {
      patch.object_ = ParseOrderedJson(call.payload_json);
      patch.object_bytes_ = patch.object_.dump().size();
    }
    patch.bytes_added_ = call.payload_json.size() + call.key.size();
  }
  if (!call.key.empty()) {
    LC_ASSIGN_OR_RETURN(patch.keys_, PatchedPath(call.key, "key"));
    patch.path_ = PathText(patch.keys_);
  }
  for (size_t i = 0; i < call.keys.size(); ++i) {
    LC_RETURN_IF_ERROR(PatchedPath(call.keys[i], StrCat("keys[", i, "]")).status());
  }
  LC_ASSIGN_OR_RETURN(patch.kept_, PayloadSelector::Make({{}, call.keys}, "keys"));
  return patch;
}

absl::Status PayloadPatch::SetAt(std::span<const std::string> keys, OrderedJson* at, int64_t* bytes_left) const {
  if (at->is_null()) *at = OrderedJson::object();
  if (at->is_array()) {
    for (OrderedJson& element : *at) LC_RETURN_IF_ERROR(SetAt(keys, &element, bytes_left));
    return absl::OkStatus();
  }
  if (!at->is_object()) {
    return FailedPrecondition(StrCat("a value on the way to the key '", path_, "' is a ", at->type_name(),
                                     "; a change inside it needs an object"));
  }
  // Each of these bytes is in the new payload's text. A long array takes the given object once an element, so that what
  // is too long must be refused before it fills the memory.
  constexpr size_t kAroundKey = 5;  // {"":}
  *bytes_left -= static_cast<int64_t>(keys.empty() ? object_bytes_ : keys[0].size() + kAroundKey);
  if (*bytes_left < 0) {
    return InvalidField("payload_json", StrCat("more than ", payload_bytes_max_, " bytes long after the change"),
                        StrCat("at most ", payload_bytes_max_));
  }
  if (!keys.empty()) return SetAt(keys.subspan(1), &(*at)[keys[0]], bytes_left);
  SetMembers(object_, at);
  return absl::OkStatus();
}

absl::StatusOr<std::string> PayloadPatch::Of(const ItemId& id, const std::string& payload_json) const {
  switch (change_) {
    case PayloadChange::kClear:
      return std::string("{}");
    case PayloadChange::kOverwrite:
      return text_;
    case PayloadChange::kDeleteKeys: {
      std::string text = kept_.Of(payload_json);
      // Numbers are written anew, and may become longer. What only becomes shorter is never refused.
      if (text.size() > payload_json.size()) LC_RETURN_IF_ERROR(CheckChanged(text, id));
      return text;
    }
    case PayloadChange::kSet:
      break;
  }
  OrderedJson payload = ParseOrderedJson(payload_json);
  // The write checked it: one that does not parse has no fields.
  if (!payload.is_object()) payload = OrderedJson::object();
  int64_t bytes_left = payload_bytes_max_;
  LC_RETURN_IF_ERROR(Annotate(SetAt(keys_, &payload, &bytes_left), StrCat("item ", ToString(id))));
  std::string text = payload.dump();
  LC_RETURN_IF_ERROR(CheckChanged(text, id));
  return text;
}

absl::Status PayloadPatch::CheckChanged(const std::string& text, const ItemId& id) const {
  return Annotate(CheckPayload(text, payload_bytes_max_, "payload_json"),
                  StrCat("item ", ToString(id), ", after the change"));
}

}  // namespace lightcone::server
