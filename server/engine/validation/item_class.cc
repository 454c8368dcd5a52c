#include "server/engine/validation/item_class.h"

#include <type_traits>
#include <variant>

#include "base/number_text.h"
#include "base/strings.h"
#include "server/engine/filter/payload_field.h"
#include "server/engine/filter/payload_path.h"

namespace lightcone::server {

std::optional<std::string> ClassOf(const std::string& payload_json, const std::string& path) {
  const auto keys = ParsePayloadPath(path, "label_field");
  if (!keys.ok()) return std::nullopt;  // The call that named the path checked it.
  const PayloadValues values = Payload(payload_json).At(*keys);
  if (values.scalars.empty()) return std::nullopt;
  return std::visit(
      [&](const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) return StrCat("s", value);
        if constexpr (std::is_same_v<Value, double>) return StrCat("d", NumberText(value));
        return StrCat(values.scalars[0].index(), ":", value);
      },
      values.scalars[0]);
}

}  // namespace lightcone::server
