#include "server/engine/filter/payload_path.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kPathsAllowed =
    "keys separated by single dots, like camera.model, and in double quotes a key that is empty, has a dot or begins "
    "with '\"' or '$', like \"a.b\".c";

// Takes a quoted key from the beginning of `rest`; false when it does not end.
bool TakeQuoted(std::string_view* rest, std::string* key) {
  for (size_t i = 1; i < rest->size(); ++i) {
    char c = (*rest)[i];
    if (c == '"') {
      rest->remove_prefix(i + 1);
      return true;
    }
    if (c == '\\') {
      if (++i == rest->size()) return false;
      c = (*rest)[i];
      if (c != '"' && c != '\\') return false;
    }
    *key += c;
  }
  return false;
}

// A path that begins with '$' would name a field of the embedding.
bool NeedsQuotes(std::string_view key, bool first) {
  return key.empty() || key[0] == '"' || (first && key[0] == '$') || key.find('.') != std::string_view::npos;
}

}  // namespace

absl::StatusOr<PathKeys> ParsePayloadPath(std::string_view path, std::string_view field) {
  const auto wrong = [&] {
    return InvalidField(field, path.empty() ? "empty" : StrCat("'", path, "'"), kPathsAllowed);
  };
  if (path.empty() || path[0] == '$') return wrong();
  PathKeys keys;
  for (std::string_view rest = path;;) {
    std::string key;
    if (rest.starts_with('"')) {
      if (!TakeQuoted(&rest, &key)) return wrong();
    } else {
      const size_t dot = std::min(rest.find('.'), rest.size());
      key = rest.substr(0, dot);
      rest.remove_prefix(dot);
      if (key.empty()) return wrong();
    }
    keys.push_back(std::move(key));
    if (rest.empty()) return keys;
    if (rest[0] != '.') return wrong();
    rest.remove_prefix(1);
  }
}

std::string PathText(std::span<const std::string> keys) {
  std::string text;
  for (const std::string& key : keys) {
    const bool quoted = NeedsQuotes(key, text.empty());
    if (!text.empty()) text += '.';
    if (!quoted) {
      text += key;
      continue;
    }
    text += '"';
    for (const char c : key) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    text += '"';
  }
  return text;
}

std::string CanonicalPath(const std::string& path) {
  const auto keys = ParsePayloadPath(path, "path");
  return keys.ok() ? PathText(*keys) : path;
}

}  // namespace lightcone::server
