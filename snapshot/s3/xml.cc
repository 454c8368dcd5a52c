#include "snapshot/s3/xml.h"

#include <charconv>

#include "base/strings.h"

namespace lightcone {
namespace {

constexpr size_t kEntityBytesMax = 8;

// The character that an entity such as "amp" or "#x22" stands for; 0 for another.
char CharacterOf(std::string_view entity) {
  if (entity == "amp") return '&';
  if (entity == "lt") return '<';
  if (entity == "gt") return '>';
  if (entity == "quot") return '"';
  if (entity == "apos") return '\'';
  if (!entity.starts_with('#')) return 0;
  const bool hex = entity.starts_with("#x");
  const char* const end = entity.data() + entity.size();
  unsigned code = 0;
  const auto read = std::from_chars(entity.data() + (hex ? 2 : 1), end, code, hex ? 16 : 10);
  return read.ec == std::errc() && read.ptr == end && code < 128 ? static_cast<char>(code) : char{0};
}

std::string Decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    // No further than an entity is long: many '&' without an end would cost the square of their number.
    const size_t bytes = text[i] == '&' ? text.substr(i, kEntityBytesMax + 1).find(';') : std::string_view::npos;
    const char c = bytes != std::string_view::npos ? CharacterOf(text.substr(i + 1, bytes - 1)) : char{0};
    out += c != 0 ? c : text[i];
    if (c != 0) i += bytes;
  }
  return out;
}

}  // namespace

std::vector<std::string_view> XmlElements(std::string_view xml, std::string_view name) {
  std::vector<std::string_view> out;
  const std::string open = StrCat("<", name), close = StrCat("</", name, ">");
  for (size_t at = xml.find(open); at != std::string_view::npos; at = xml.find(open, at)) {
    at += open.size();
    if (at == xml.size()) break;
    if (xml[at] != '>' && xml[at] != ' ' && xml[at] != '/') continue;  // a longer name
    const size_t bracket = xml.find('>', at);
    if (bracket == std::string_view::npos) break;
    at = bracket;  // The next search begins behind what this one read, so that the time is linear.
    if (xml[bracket - 1] == '/') {
      out.emplace_back();
      continue;
    }
    const size_t end = xml.find(close, bracket);
    if (end == std::string_view::npos) break;
    out.push_back(xml.substr(bracket + 1, end - bracket - 1));
    at = end;
  }
  return out;
}

std::string XmlText(std::string_view xml, std::string_view name) {
  const std::vector<std::string_view> all = XmlElements(xml, name);
  return all.empty() ? "" : Decoded(all.front());
}

}  // namespace lightcone
