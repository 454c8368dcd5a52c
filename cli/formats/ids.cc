#include "cli/formats/ids.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

#include "base/status.h"
#include "base/utf8.h"
#include "cli/formats/readers.h"

namespace lightcone::cli {
namespace {

std::optional<uint64_t> AsNumber(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0') || text[0] < '0' || text[0] > '9') return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

absl::Status CheckUtf8(std::string_view text, std::string_view field) {
  const auto at = FirstNotUtf8(text);
  if (!at) return absl::OkStatus();
  return InvalidField(
      field, StrCat("'", CleanUtf8(text.substr(0, 200)), "', whose byte ", *at, " is ", HexByte(text[*at])), "UTF-8");
}

absl::StatusOr<v1::ItemId> ParseItemId(std::string_view text) {
  LC_RETURN_IF_ERROR(CheckUtf8(text, "id"));
  v1::ItemId id;
  if (const std::optional<uint64_t> number = AsNumber(text)) {
    id.set_number(*number);
    return id;
  }
  std::string name(text);
  if (text.starts_with('"')) {
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!value.is_string()) return InvalidField("id", text, "a name in \"double quotes\", a bare name or a number");
    name = value.get<std::string>();
  }
  if (name.empty()) return InvalidField("id", "empty", "a name of 1 .. 512 bytes, or a number");
  id.set_name(name);
  return id;
}

std::string ItemIdText(const v1::ItemId& id) {
  if (id.kind_case() == v1::ItemId::kNumber) return StrCat(id.number());
  const bool ambiguous = AsNumber(id.name()).has_value() || id.name().starts_with('"');
  if (!ambiguous) return id.name();
  return nlohmann::json(id.name()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json ItemIdJson(const v1::ItemId& id) {
  if (id.kind_case() == v1::ItemId::kNumber) return id.number();
  return id.name();
}

absl::StatusOr<v1::ItemId> ItemIdFromJson(const nlohmann::json& json) {
  v1::ItemId id;
  if (json.is_string() && !json.get_ref<const std::string&>().empty()) {
    id.set_name(json.get<std::string>());
  } else if (json.is_number_unsigned()) {
    id.set_number(json.get<uint64_t>());
  } else {
    return InvalidField("id", Shown(json), "a text that is not empty, or an integer from 0 to 2^64-1");
  }
  return id;
}

}  // namespace lightcone::cli
