#include "base/toml.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr std::string_view kSpace = " \t";

std::string_view Stripped(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool IsKey(std::string_view key) {
  if (key.empty() || key.front() == '.' || key.back() == '.' || key.find("..") != std::string_view::npos) return false;
  for (const char c : key) {
    const bool good =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!good) return false;
  }
  return true;
}

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code >> 6));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xe0 | code >> 12));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

// `\uXXXX` at text[at] (after the u); nullopt when it is none or a surrogate.
std::optional<uint32_t> Unicode(std::string_view text, size_t at) {
  if (at + 4 > text.size()) return std::nullopt;
  uint32_t code = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    code = code * 16 + static_cast<uint32_t>(digit);
  }
  if (code >= 0xd800 && code <= 0xdfff) return std::nullopt;
  return code;
}

// Reads a quoted string at the start of `text` and moves `text` behind it. An error is a plain sentence.
std::optional<std::string> TakeString(std::string_view* text, std::string* error) {
  const char quote = text->front();
  if (text->substr(0, 3) == (quote == '"' ? "\"\"\"" : "'''")) {
    *error = "strings over several lines are not supported";
    return std::nullopt;
  }
  std::string out;
  for (size_t i = 1; i < text->size(); ++i) {
    const char c = (*text)[i];
    if (c == quote) {
      text->remove_prefix(i + 1);
      return out;
    }
    if (c != '\\' || quote == '\'') {
      out.push_back(c);
      continue;
    }
    if (++i == text->size()) break;
    constexpr std::string_view kNames = "btnfr\"\\";
    constexpr std::string_view kValues = "\b\t\n\f\r\"\\";
    if ((*text)[i] == 'u') {
      const std::optional<uint32_t> code = Unicode(*text, i + 1);
      if (!code.has_value()) {
        *error = "\\u needs four hexadecimal digits of a character";
        return std::nullopt;
      }
      AppendUtf8(*code, &out);
      i += 4;
    } else if (const size_t which = kNames.find((*text)[i]); which != std::string_view::npos) {
      out.push_back(kValues[which]);
    } else {
      *error = StrCat("unknown escape '\\", std::string(1, (*text)[i]), "'");
      return std::nullopt;
    }
  }
  *error = "the string does not end on its line";
  return std::nullopt;
}

absl::StatusOr<TomlEntry> ParseValue(std::string_view rest, const std::string& where) {
  TomlEntry entry;
  if (rest.empty()) return InvalidArgument(StrCat(where, "a value is missing after '='"));
  if (rest.front() == '"' || rest.front() == '\'') {
    std::string error;
    std::optional<std::string> text = TakeString(&rest, &error);
    if (!text.has_value()) return InvalidArgument(StrCat(where, error));
    entry.value = *std::move(text);
    entry.is_text = true;
  } else {
    const size_t end = std::min(rest.find('#'), rest.size());
    entry.value = std::string(Stripped(rest.substr(0, end)));
    rest.remove_prefix(end);
    constexpr std::string_view kBare = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-._";
    if (entry.value.empty() || entry.value.find_first_not_of(kBare) != std::string::npos) {
      return InvalidArgument(
          StrCat(where, "'", entry.value, "' is no value; allowed: a number, true, false or a text in quotes"));
    }
  }
  rest = Stripped(rest);
  if (!rest.empty() && rest.front() != '#') {
    return InvalidArgument(StrCat(where, "unexpected '", rest.substr(0, 40), "' after the value"));
  }
  return entry;
}

}  // namespace

absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text, std::string_view name) {
  std::vector<TomlEntry> out;
  absl::flat_hash_set<std::string> seen;
  std::string section;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    line = Stripped(line);
    const std::string where = StrCat(name, ":", ++number, ": ");
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      const size_t close = line.find(']');
      const std::string_view after = close == std::string_view::npos ? "" : Stripped(line.substr(close + 1));
      if (close == std::string_view::npos || !IsKey(Stripped(line.substr(1, close - 1))) ||
          (!after.empty() && after.front() != '#')) {
        return InvalidArgument(StrCat(where, "'", line.substr(0, 80), "' is no section; allowed: [name]"));
      }
      section = std::string(Stripped(line.substr(1, close - 1)));
      continue;
    }
    const size_t equals = line.find('=');
    const std::string_view key = Stripped(line.substr(0, std::min(equals, line.size())));
    if (equals == std::string_view::npos || !IsKey(key)) {
      return InvalidArgument(StrCat(where, "'", line.substr(0, 80), "' is no setting; allowed: key = value"));
    }
    LC_ASSIGN_OR_RETURN(TomlEntry entry, ParseValue(Stripped(line.substr(equals + 1)), where));
    entry.key = section.empty() ? std::string(key) : StrCat(section, ".", key);
    entry.line = number;
    if (!seen.insert(entry.key).second) return InvalidArgument(StrCat(where, "'", entry.key, "' stands twice"));
    out.push_back(std::move(entry));
  }
  return out;
}

std::string TomlQuoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'u', '0', '0', kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 0xf]};
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

}  // namespace lightcone
