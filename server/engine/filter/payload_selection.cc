#include "server/engine/filter/payload_selection.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/ordered_json.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "server/engine/filter/payload_field.h"

namespace lightcone::server {
namespace {

using SelectedJson = OrderedJson;
using Paths = std::vector<std::span<const std::string>>;

absl::StatusOr<std::vector<PathKeys>> PathsOf(const std::vector<std::string>& texts, const std::string& list) {
  if (texts.size() > kPayloadFieldsMax) {
    return InvalidField(list, StrCat(texts.size(), " long"), StrCat("at most ", kPayloadFieldsMax, " paths"));
  }
  std::vector<PathKeys> paths;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string where = StrCat(list, "[", i, "]");
    if (texts[i].size() > kPayloadPathBytesMax) {
      return InvalidField(where, StrCat(texts[i].size(), " bytes long"), StrCat("at most ", kPayloadPathBytesMax));
    }
    LC_ASSIGN_OR_RETURN(PathKeys keys, ParsePayloadPath(texts[i], where));
    paths.push_back(std::move(keys));
  }
  return paths;
}

// The paths that go on below a key, without it.
Paths Below(const Paths& paths, const std::string& key) {
  Paths below;
  for (const auto& path : paths) {
    if (!path.empty() && path[0] == key) below.push_back(path.subspan(1));
  }
  return below;
}

bool AnyEnds(const Paths& paths) {
  return std::any_of(paths.begin(), paths.end(), [](const auto& path) { return path.empty(); });
}

// nullopt: none of the paths leads anywhere.
std::optional<SelectedJson> Included(SelectedJson& value, const Paths& paths) {
  if (paths.empty()) return std::nullopt;
  if (AnyEnds(paths)) return std::move(value);
  if (value.is_object()) {
    SelectedJson some = SelectedJson::object();
    // Grown step by step, the object would copy its values.
    some.get_ref<SelectedJson::object_t&>().reserve(std::min(value.size(), paths.size()));
    for (auto& [key, below] : value.items()) {
      if (auto kept = Included(below, Below(paths, key))) some[key] = *std::move(kept);
    }
    if (!some.empty()) return some;
  } else if (value.is_array()) {
    SelectedJson some = SelectedJson::array();
    for (SelectedJson& element : value) {
      if (auto kept = Included(element, paths)) some.push_back(*std::move(kept));
    }
    if (!some.empty()) return some;
  }
  return std::nullopt;
}

void Exclude(SelectedJson* value, const Paths& paths) {
  if (paths.empty()) return;
  if (value->is_array()) {
    for (SelectedJson& element : *value) Exclude(&element, paths);
  } else if (value->is_object()) {
    SelectedJson::object_t kept;  // in one pass: each erasure would move all that follows
    kept.reserve(value->size());
    for (auto& [key, field] : value->get_ref<SelectedJson::object_t&>()) {
      const Paths below = Below(paths, key);
      if (AnyEnds(below)) continue;
      Exclude(&field, below);
      kept.emplace_back(key, std::move(field));
    }
    *value = std::move(kept);
  }
}

}  // namespace

absl::StatusOr<PayloadSelector> PayloadSelector::Make(const PayloadSelection& selection, std::string_view field) {
  PayloadSelector selector;
  LC_ASSIGN_OR_RETURN(selector.include_, PathsOf(selection.include, StrCat(field, ".include")));
  LC_ASSIGN_OR_RETURN(selector.exclude_, PathsOf(selection.exclude, StrCat(field, ".exclude")));
  return selector;
}

std::string PayloadSelector::Of(std::string payload_json) const {
  if (all()) return payload_json;
  SelectedJson payload = ParseOrderedJson(payload_json);
  if (!payload.is_object()) return payload_json;
  if (!include_.empty()) {
    payload = Included(payload, Paths(include_.begin(), include_.end())).value_or(SelectedJson::object());
  }
  Exclude(&payload, Paths(exclude_.begin(), exclude_.end()));
  return payload.dump();
}

}  // namespace lightcone::server
