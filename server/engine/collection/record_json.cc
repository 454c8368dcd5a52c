#include "server/engine/collection/record_json.h"

namespace lightcone::server {

absl::StatusOr<Json> ParseRecord(std::string_view kind, std::string_view bytes, uint32_t newest) {
  Json json = Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DataLoss(StrCat(kind, " record: not a JSON object"));
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_unsigned() || format->get<uint64_t>() == 0) {
    return DataLoss(StrCat(kind, " record: field 'format' is missing or damaged"));
  }
  if (format->get<uint64_t>() > newest) {
    return FailedPrecondition(StrCat(kind, " record: format ", format->get<uint64_t>(), " was written by a newer ",
                                     "version of Lightcone; this one reads up to ", newest));
  }
  return json;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json ToJson(const ItemId& id) {
  if (const auto* number = std::get_if<uint64_t>(&id.value)) return *number;
  return std::get<std::string>(id.value);
}

bool ReadItemId(const Json& json, ItemId* out) {
  if (json.is_number_unsigned()) {
    out->value = json.get<uint64_t>();
  } else if (json.is_string()) {
    out->value = json.get<std::string>();
  } else {
    return false;
  }
  return true;
}

}  // namespace lightcone::server
