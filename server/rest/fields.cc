#include "server/rest/fields.h"

#include <utility>

#include "base/status.h"
#include "server/rest/rest_call.h"

namespace lightcone::server {

using nlohmann::json;

std::string ShownJson(const json& value) {
  if (value.is_structured()) return StrCat("an ", value.type_name(), " of ", value.size());
  std::string text = TextOfJson(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

absl::Status NotSupported(std::string_view field, std::string_view why) {
  return Unimplemented(StrCat("field '", field, "' is not supported: ", why));
}

absl::StatusOr<Fields> Fields::Of(const json& object, std::string path) {
  if (object.is_object()) return Fields(object, std::move(path));
  return InvalidField(path.empty() ? "body" : path, ShownJson(object), "a JSON object");
}

const json* Fields::Find(const char* name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<const json*> Fields::Require(const char* name, std::string_view allowed) const {
  if (const json* found = Find(name)) return found;
  return InvalidField(At(name), "missing", allowed);
}

std::string Fields::At(std::string_view name) const {
  return path_.empty() ? std::string(name) : StrCat(path_, ".", name);
}

absl::StatusOr<bool> Fields::Flag(const char* name, bool fallback) const {
  const json* found = Find(name);
  if (found == nullptr) return fallback;
  if (found->is_boolean()) return found->get<bool>();
  return InvalidField(At(name), ShownJson(*found), "true, false");
}

absl::StatusOr<int64_t> Fields::Whole(const char* name, int64_t fallback, int64_t low, int64_t high) const {
  const json* found = Find(name);
  if (found == nullptr) return fallback;
  const bool whole = found->is_number_integer() && !(found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX);
  if (whole && found->get<int64_t>() >= low && found->get<int64_t>() <= high) return found->get<int64_t>();
  return InvalidField(At(name), ShownJson(*found), StrCat("a whole number, ", low, " .. ", high));
}

absl::StatusOr<std::optional<double>> Fields::Number(const char* name) const {
  const json* found = Find(name);
  if (found == nullptr) return std::optional<double>();
  if (found->is_number()) return std::optional(found->get<double>());
  return InvalidField(At(name), ShownJson(*found), "a number");
}

absl::StatusOr<std::string> Fields::Text(const char* name) const {
  const json* found = Find(name);
  if (found == nullptr) return std::string();
  if (found->is_string()) return found->get<std::string>();
  return InvalidField(At(name), ShownJson(*found), "a text");
}

absl::StatusOr<std::vector<std::string>> Fields::Texts(const char* name) const {
  std::vector<std::string> texts;
  const json* found = Find(name);
  if (found == nullptr) return texts;
  if (!found->is_array()) return InvalidField(At(name), ShownJson(*found), "an array of texts");
  for (const json& text : *found) {
    if (!text.is_string()) return InvalidField(StrCat(At(name), "[", texts.size(), "]"), ShownJson(text), "a text");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

absl::Status Fields::Refuse(const char* name, std::string_view why) const {
  return Find(name) == nullptr ? absl::OkStatus() : NotSupported(At(name), why);
}

}  // namespace lightcone::server
