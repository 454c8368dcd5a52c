#include "trainer/config_rows.h"

namespace lightcone::internal {

std::string ShowJson(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return NumberText(value.get<double>());
  return value.dump();
}

Row OwnRow(const OwnOption& option) {
  Row row{option.name, option.help, StrCat(NumberText(option.min), " .. ", NumberText(option.max)), {}, {}, {}};
  row.get = [option](const TrainConfig& c) { return nlohmann::ordered_json(option.Of(c)); };
  row.set = [option, allowed = row.allowed](TrainConfig& c, const nlohmann::json& value) {
    if (!value.is_number()) return InvalidField(option.name, ShowJson(nlohmann::ordered_json(value)), allowed);
    c.own.insert_or_assign(option.name, value.get<double>());
    return absl::OkStatus();
  };
  row.in_range = [option](const TrainConfig& c) { return option.Of(c) >= option.min && option.Of(c) <= option.max; };
  return row;
}

bool IsWord(std::string_view value, std::string_view words) {
  while (!words.empty()) {
    const size_t comma = words.find(", ");
    if (words.substr(0, comma) == value) return true;
    words = comma == std::string_view::npos ? std::string_view() : words.substr(comma + 2);
  }
  return false;
}

}  // namespace lightcone::internal
