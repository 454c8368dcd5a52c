#include "cli/formats/text_lines.h"

#include "base/status.h"
#include "cli/formats/ids.h"
#include "cli/formats/readers.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

using Json = nlohmann::json;

constexpr int kTextDepthMax = 16;

// The value of a field that must be there.
absl::StatusOr<const Json*> FieldOf(const Json& object, const char* name, const char* allowed) {
  const auto field = object.find(name);
  if (field == object.end()) return InvalidField(name, "absent", allowed);
  return &*field;
}

}  // namespace

absl::StatusOr<TextLine> ParseTextLine(const std::string& line) {
  LC_ASSIGN_OR_RETURN(const Json object, ParseJsonLine(line, kTextDepthMax));
  if (!object.is_object()) {
    return InvalidField("line", Shown(object), "a JSON object with \"id\", \"label\" and \"text\"");
  }
  TextLine out;
  LC_ASSIGN_OR_RETURN(const Json* id, FieldOf(object, "id", "a text or an integer"));
  LC_ASSIGN_OR_RETURN(const v1::ItemId item, ItemIdFromJson(*id));
  out.id = ItemIdText(item);
  LC_ASSIGN_OR_RETURN(const Json* label, FieldOf(object, "label", "a text or an integer"));
  if (!label->is_string() && !label->is_number_integer()) {
    return InvalidField("label", Shown(*label), "a text or an integer");
  }
  out.label = label->is_string() ? label->get<std::string>() : label->dump();
  LC_ASSIGN_OR_RETURN(const Json* text, FieldOf(object, "text", "a text"));
  if (!text->is_string()) return InvalidField("text", Shown(*text), "a text");
  out.text = text->get<std::string>();
  return out;
}

}  // namespace lightcone::cli
