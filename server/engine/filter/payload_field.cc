#include "server/engine/filter/payload_field.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"
#include "server/engine/filter/payload_path.h"
#include "server/engine/filter/text_match.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;

constexpr std::pair<PayloadType, std::string_view> kTypes[] = {
    {PayloadType::kKeyword, "keyword"}, {PayloadType::kInteger, "integer"}, {PayloadType::kFloat, "float"},
    {PayloadType::kBoolean, "boolean"}, {PayloadType::kTime, "time"},       {PayloadType::kText, "text"},
    {PayloadType::kGeo, "geo"}};

void AddScalar(const Json& value, PayloadValues* out) {
  if (value.is_string()) {
    out->scalars.emplace_back(value.get<std::string>());
  } else if (value.is_boolean()) {
    out->scalars.emplace_back(value.get<bool>());
  } else if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number <= static_cast<uint64_t>(INT64_MAX)) {
      out->scalars.emplace_back(static_cast<int64_t>(number));
    } else {
      out->scalars.emplace_back(number);
    }
  } else if (value.is_number_integer()) {
    out->scalars.emplace_back(value.get<int64_t>());
  } else if (value.is_number_float()) {
    out->scalars.emplace_back(value.get<double>());
  }
}

}  // namespace

std::string_view PayloadTypeName(PayloadType type) {
  for (const auto& [known, name] : kTypes) {
    if (known == type) return name;
  }
  return "unknown";
}

absl::StatusOr<PayloadType> ParsePayloadType(std::string_view name, std::string_view field) {
  for (const auto& [type, known] : kTypes) {
    if (known == name) return type;
  }
  return InvalidField(field, StrCat("'", name, "'"), "keyword, integer, float, boolean, time, text, geo");
}

absl::Status CheckPayloadFields(std::span<const PayloadField> fields, std::string_view list) {
  if (fields.size() > kPayloadFieldsMax) {
    return InvalidField(list, StrCat(fields.size(), " long"), StrCat("at most ", kPayloadFieldsMax, " fields"));
  }
  std::set<std::string> known;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string where = StrCat(list, "[", i, "].path");
    const std::string& path = fields[i].path;
    if (path.size() > kPayloadPathBytesMax) {
      return InvalidField(where, StrCat(path.size(), " bytes long"), StrCat("at most ", kPayloadPathBytesMax));
    }
    if (!IsUtf8(path)) return InvalidField(where, "not UTF-8", "UTF-8");
    LC_ASSIGN_OR_RETURN(const PathKeys keys, ParsePayloadPath(path, where));
    if (!known.insert(PathText(keys)).second)
      return InvalidField(where, StrCat("'", path, "' again"), "each path once");
  }
  return absl::OkStatus();
}

std::string TextOf(std::span<const PayloadField> fields) {
  std::string text;
  for (const PayloadField& field : fields) {
    text += StrCat(text.empty() ? "" : ", ", field.path, "=", PayloadTypeName(field.type));
  }
  return text;
}

struct Payload::Parsed {
  Json json;
};

Payload::Payload(std::string_view json) : parsed_(std::make_unique<Parsed>()) {
  parsed_->json = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed_->json.is_object()) parsed_->json = Json::object();
}
Payload::Payload(Payload&&) noexcept = default;
Payload::~Payload() = default;

PayloadValues Payload::At(std::span<const std::string> keys) const {
  PayloadValues values;
  VisitEnds(parsed_->json, keys, [&](const Json& end) {
    values.present = true;
    values.count += ValuesOfEnd(end);
    return VisitElements(end, [&](const Json& value) {
      values.null = values.null || value.is_null();
      AddScalar(value, &values);
      if (const auto place = PlaceIn(value)) values.places.push_back(*place);
      return false;
    });
  });
  return values;
}

void PayloadValues::CutTexts() {
  words = {};
  size_t texts = 0;
  for (const auto& scalar : scalars) {
    const auto* const text = std::get_if<std::string>(&scalar);
    if (text == nullptr) continue;
    words.several_texts = ++texts > 1;
    for (std::string& word : WordsOf(*text)) {
      word.size() > kIndexedWordBytesMax ? static_cast<void>(words.long_words = true)
                                         : words.words.push_back(std::move(word));
    }
  }
  std::sort(words.words.begin(), words.words.end());
  words.words.erase(std::unique(words.words.begin(), words.words.end()), words.words.end());
  words.words.shrink_to_fit();  // many texts repeat few words
}

}  // namespace lightcone::server
