#include "server/engine/filter/payload_field.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"
#include "server/engine/filter/filter.h"
#include "server/engine/filter/payload_path.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;

constexpr std::pair<PayloadType, std::string_view> kTypes[] = {{PayloadType::kKeyword, "keyword"},
                                                               {PayloadType::kInteger, "integer"},
                                                               {PayloadType::kFloat, "float"},
                                                               {PayloadType::kBoolean, "boolean"},
                                                               {PayloadType::kTime, "time"}};

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

// The parts of a time's key, from the lowest bits: a fraction in base 11, and then year to second, each in bits of its
// own. Texts end in Z, which orders behind every digit and the dot. So digit 10 stands for the Z, and a text without a
// fraction has a 1 above the fraction's digits.
constexpr int64_t kFractionDigits = 6;
constexpr int64_t kElevenToTheSixth = 11 * 11 * 11 * 11 * 11 * 11;
constexpr int kFractionBits = 22;  // 2 * 11^6 < 2^22
constexpr int kPartBits[] = {14, 4, 5, 5, 6, 6};
constexpr int kPartDigits[] = {4, 2, 2, 2, 2, 2};
constexpr char kSeparators[] = "--T::";
constexpr size_t kSecondsLength = 19;  // length of 2024-05-01T12:30:00

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
  return InvalidField(field, StrCat("'", name, "'"), "keyword, integer, float, boolean, time");
}

absl::Status CheckPayloadFields(std::span<const PayloadField> fields, std::string_view list) {
  if (fields.size() > kPayloadFieldsMax) {
    return InvalidField(list, StrCat(fields.size(), " long"), StrCat("at most ", kPayloadFieldsMax, " fields"));
  }
  std::set<std::string_view> known;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string where = StrCat(list, "[", i, "].path");
    const std::string& path = fields[i].path;
    if (path.size() > kPayloadPathBytesMax) {
      return InvalidField(where, StrCat(path.size(), " bytes long"), StrCat("at most ", kPayloadPathBytesMax));
    }
    if (!IsUtf8(path)) return InvalidField(where, "not UTF-8", "UTF-8");
    LC_RETURN_IF_ERROR(CheckPayloadPath(path, where));
    if (!known.insert(path).second) return InvalidField(where, StrCat("'", path, "' again"), "each path once");
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

PayloadValues Payload::At(std::string_view path) const {
  PayloadValues values;
  VisitPath(parsed_->json, path, [&](const Json& value) {
    values.present = true;
    AddScalar(value, &values);
    return false;
  });
  return values;
}

std::optional<int64_t> TimeKey(std::string_view text) {
  if (text.size() <= kSecondsLength || text.back() != 'Z') return std::nullopt;
  int64_t key = 0;
  size_t at = 0;
  for (size_t part = 0; part < std::size(kPartBits); ++part) {
    int64_t number = 0;
    for (int digit = 0; digit < kPartDigits[part]; ++digit, ++at) {
      if (text[at] < '0' || text[at] > '9') return std::nullopt;
      number = 10 * number + (text[at] - '0');
    }
    if (number >= int64_t{1} << kPartBits[part]) return std::nullopt;
    key = (key << kPartBits[part]) | number;
    if (part + 1 < std::size(kPartBits) && text[at++] != kSeparators[part]) return std::nullopt;
  }
  const std::string_view fraction = text.substr(kSecondsLength, text.size() - kSecondsLength - 1);
  if (fraction.empty()) return (key << kFractionBits) | kElevenToTheSixth;
  if (fraction[0] != '.' || fraction.size() < 2 || fraction.size() > 1 + kFractionDigits) return std::nullopt;
  int64_t code = 0;
  for (int64_t i = 1; i <= kFractionDigits; ++i) {
    int64_t digit = 0;
    if (i < static_cast<int64_t>(fraction.size())) {
      const char c = fraction[static_cast<size_t>(i)];
      if (c < '0' || c > '9') return std::nullopt;
      digit = c - '0';
    } else if (i == static_cast<int64_t>(fraction.size())) {
      digit = 10;
    }
    code = 11 * code + digit;
  }
  return (key << kFractionBits) | code;
}

std::string TimeText(int64_t key) {
  int64_t code = key & ((int64_t{1} << kFractionBits) - 1);
  int64_t rest = key >> kFractionBits;
  std::string text = "0000-00-00T00:00:00";
  size_t end = kSecondsLength;
  for (size_t part = std::size(kPartBits); part-- > 0;) {
    int64_t number = rest & ((int64_t{1} << kPartBits[part]) - 1);
    rest >>= kPartBits[part];
    for (int digit = 0; digit < kPartDigits[part]; ++digit, number /= 10) {
      text[--end] = static_cast<char>('0' + number % 10);
    }
    if (part > 0) --end;
  }
  if (code < kElevenToTheSixth) {
    std::string fraction;
    for (int64_t i = 0; i < kFractionDigits; ++i, code /= 11) fraction.push_back(static_cast<char>('0' + code % 11));
    std::reverse(fraction.begin(), fraction.end());
    text += "." + fraction.substr(0, fraction.find(static_cast<char>('0' + 10)));
  }
  return text + "Z";
}

}  // namespace lightcone::server
