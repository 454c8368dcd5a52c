#include "server/rest/point_text.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/status.h"
#include "server/rest/fields.h"
#include "server/rest/rest_call.h"

namespace lightcone::server {
namespace {

constexpr char kIdsAllowed[] = "an integer of 0 .. 18446744073709551615, or a UUID";

// 32 hexadecimal digits, or 36 characters with dashes; each in braces or behind "urn:uuid:", too. Empty: no UUID.
std::string CanonicalUuid(std::string_view text) {
  constexpr std::string_view kUrn = "urn:uuid:";
  if (text.starts_with(kUrn)) text.remove_prefix(kUrn.size());
  if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
  const bool dashes = text.size() == 36;
  if (!dashes && text.size() != 32) return "";
  std::string uuid;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool at_dash = dashes && (i == 8 || i == 13 || i == 18 || i == 23);
    char c = text[i];
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c | 0x20);
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (at_dash ? c != '-' : !digit) return "";
    if (!at_dash && (uuid.size() == 8 || uuid.size() == 13 || uuid.size() == 18 || uuid.size() == 23)) uuid += '-';
    uuid += c;
  }
  return uuid;
}

absl::StatusOr<ItemId> UuidFrom(std::string_view text, std::string_view field) {
  std::string uuid = CanonicalUuid(text);
  if (uuid.empty()) return InvalidField(field, ShownJson(std::string(text)), kIdsAllowed);
  return ItemId{std::move(uuid)};
}

void AppendVector(const std::vector<float>& vector, std::string* out) {
  out->push_back('[');
  char digits[32];
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) out->push_back(',');
    const auto end = std::to_chars(digits, digits + sizeof(digits), vector[i]).ptr;
    out->append(digits, end);
  }
  out->push_back(']');
}

void AppendParts(const PointView& point, const PointParts& parts, std::string* out) {
  if (parts.payload) *out += StrCat(",\"payload\":", point.payload_json.empty() ? "{}" : point.payload_json);
  if (parts.vector && parts.vector_generation != 0 && point.generation != parts.vector_generation) {
    *out += ",\"vector\":{}";
  } else if (parts.vector) {
    *out += ",\"vector\":";
    if (!parts.vector_name.empty()) *out += StrCat("{", TextOfJson(parts.vector_name), ":");
    AppendVector(point.vector, out);
    if (!parts.vector_name.empty()) out->push_back('}');
  }
}

}  // namespace

absl::StatusOr<ItemId> PointIdFrom(const nlohmann::json& value, std::string_view field) {
  if (value.is_number_unsigned()) return ItemId{value.get<uint64_t>()};
  if (value.is_string()) return UuidFrom(value.get_ref<const std::string&>(), field);
  return InvalidField(field, ShownJson(value), kIdsAllowed);
}

absl::StatusOr<std::vector<ItemId>> PointIdsFrom(const nlohmann::json& value, const std::string& field) {
  if (!value.is_array()) return InvalidField(field, ShownJson(value), "an array of ids");
  std::vector<ItemId> ids;
  ids.reserve(value.size());
  for (const nlohmann::json& one : value) {
    LC_ASSIGN_OR_RETURN(ItemId id, PointIdFrom(one, StrCat(field, "[", ids.size(), "]")));
    ids.push_back(std::move(id));
  }
  return ids;
}

absl::StatusOr<ItemId> PointIdFromPath(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return ItemId{number};
  return UuidFrom(text, "id");
}

std::string PointIdText(const ItemId& id) {
  if (const auto* number = std::get_if<uint64_t>(&id.value)) return StrCat(*number);
  return TextOfJson(std::get<std::string>(id.value));
}

std::string NumberJson(double x) { return std::isfinite(x) ? NumberText(x) : "null"; }

std::string RecordText(const PointView& point, const PointParts& parts) {
  std::string out = StrCat("{\"id\":", PointIdText(point.id));
  AppendParts(point, parts, &out);
  out +=
      StrCat(",\"lightcone\":{\"generation\":", point.generation, ",\"uncertainty\":", NumberJson(point.uncertainty));
  if (point.expires) {
    const std::string time = absl::FormatTime(absl::RFC3339_full, *point.expires, absl::UTCTimeZone());
    out += StrCat(",\"expires\":\"", time, "\"");
  }
  return StrCat(out, "}}");
}

std::string ScoredPointText(const EngineHit& hit, double score, const PointParts& parts) {
  std::string out = StrCat("{\"id\":", PointIdText(hit.id), ",\"version\":0,\"score\":", NumberJson(score));
  AppendParts({hit.id, hit.payload_json, hit.vector}, parts, &out);
  return StrCat(out, ",\"lightcone\":{\"generation\":", hit.generation,
                ",\"uncertainty\":", NumberJson(hit.uncertainty), ",\"score\":", NumberJson(hit.score),
                hit.relevance ? StrCat(",\"relevance\":", NumberJson(*hit.relevance)) : "",
                hit.scaled_distance ? StrCat(",\"distance\":", NumberJson(hit.distance)) : "", "}}");
}

std::string ListText(const std::vector<std::string>& texts) { return StrCat("[", absl::StrJoin(texts, ","), "]"); }

}  // namespace lightcone::server
