#include "trainer/class_names.h"

#include "base/status.h"
#include "models/json_fields.h"
#include "nlohmann/json.hpp"

namespace lightcone {

std::string ClassNamesToJson(const std::vector<std::string>& names) {
  return nlohmann::json(names).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::vector<std::string>> ParseClassNames(std::string_view text, int64_t rows) {
  const nlohmann::json names = internal::ParseBounded(text);
  bool readable = names.is_array() && static_cast<int64_t>(names.size()) == rows;
  for (const nlohmann::json& name : names) readable = readable && name.is_string();
  if (!readable) return DataLoss(StrCat("section 'classes' does not name ", rows, " classes"));
  return names.get<std::vector<std::string>>();
}

}  // namespace lightcone
