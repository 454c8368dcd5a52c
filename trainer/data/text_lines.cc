#include "trainer/data/text_lines.h"

#include <charconv>
#include <system_error>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr std::string_view kBlanks = " \t";

void Divide(std::string_view line, char separator, std::vector<std::string_view>* fields) {
  fields->clear();
  if (separator != ' ') {
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(separator, begin), line.size());
      fields->push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    return;
  }
  for (size_t begin = line.find_first_not_of(kBlanks); begin < line.size();) {
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    fields->push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBlanks, end);
  }
}

// At most this much of a damaged file goes into a message.
std::string Short(std::string_view text) {
  constexpr size_t kShown = 80;
  return text.size() <= kShown ? std::string(text) : StrCat(text.substr(0, kShown), "...");
}

}  // namespace

absl::Status TextLine::Error(std::string_view field, std::string_view value, std::string_view allowed) const {
  return FieldError(absl::StatusCode::kDataLoss, StrCat(what, ":", number, ": ", field), StrCat("'", Short(value), "'"),
                    allowed);
}

absl::StatusOr<int64_t> TextLine::Integer(size_t i, std::string_view name, int64_t low, int64_t high) const {
  const std::string_view text = fields[i];
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  return Error(name, text, StrCat("a whole number, ", low, " .. ", high));
}

absl::StatusOr<std::string> TextLine::Path(size_t i, std::string_view name) const {
  const std::string_view text = fields[i];
  const std::string framed = StrCat("/", text, "/");
  const bool inside = !text.empty() && text[0] != '/' && framed.find("/../") == std::string::npos &&
                      text.find('\0') == std::string_view::npos;
  if (inside) return std::string(text);
  return Error(name, text, "a path below the data folder");
}

absl::Status ForEachLine(std::string_view text, std::string_view what, char separator, size_t fields_min,
                         const std::function<absl::Status(const TextLine&)>& visit) {
  TextLine line{what, 0, {}};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view row = text.substr(begin, end - begin);
    begin = end + 1;
    ++line.number;
    if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
    if (row.find_first_not_of(kBlanks) == std::string_view::npos) continue;
    Divide(row, separator, &line.fields);
    if (line.fields.size() < fields_min) {
      return line.Error("line", row, StrCat("at least ", fields_min, " fields"));
    }
    LC_RETURN_IF_ERROR(visit(line));
  }
  return absl::OkStatus();
}

}  // namespace lightcone
