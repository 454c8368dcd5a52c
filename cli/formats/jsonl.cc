// One JSON object a line: {"id": 7, "generation": 2, "vector": [0.1, ...], "payload": {...}}.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/json_depth.h"
#include "base/status.h"
#include "base/utf8.h"
#include "cli/formats/ids.h"
#include "cli/formats/readers.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

using Json = nlohmann::json;

// Nested values are written by recursion, so a line of a million brackets must not get that far.
constexpr int kDepthMax = 128;

absl::Status NotJson(std::string_view line, size_t at, std::string_view what) {
  const auto column = 1 + std::count_if(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(at),
                                        [](char c) { return (c & 0xc0) != 0x80; });
  return InvalidArgument(StrCat("not a JSON value: column ", column, ": ", what));
}

// What people should know of a JSON error at byte `at` of the line; `told` is the parser's text.
absl::Status ExplainJson(std::string_view line, size_t at, std::string_view told) {
  const auto is_letter = [&](size_t i) { return std::isalpha(static_cast<unsigned char>(line[i])) != 0; };
  at = std::min(at, line.size());
  size_t begin = at, end = at;
  while (begin > 0 && is_letter(begin - 1)) --begin;
  while (end < line.size() && is_letter(end)) ++end;
  std::string word(line.substr(begin, end - begin));
  std::string what;
  const size_t before = at == 0 ? std::string_view::npos : line.find_last_not_of(" \t", at - 1);
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word == "nan" || word == "inf" || word == "infinity") {
    at = begin;
    what = StrCat(line.substr(begin, end - begin), " is no JSON number");
  } else if (at < line.size() && (line[at] == ']' || line[at] == '}') && before != std::string_view::npos &&
             line[before] == ',') {
    at = before;
    what = StrCat("a comma before '", line.substr(line.find_first_not_of(" \t", before + 1), 1), "'");
  } else if (told.find("; expected end of input") != std::string_view::npos) {
    what = "more behind the value; a line holds one";
  } else {
    // The parser's text is "[id] parse error at line 1, column 5: syntax error while parsing value - ...".
    const size_t colon = told.find(": "), dash = told.find(" - ");
    what = CleanUtf8(told.substr(dash != std::string_view::npos    ? dash + 3
                                 : colon != std::string_view::npos ? colon + 2
                                                                   : 0))
               .substr(0, 200);
  }
  return NotJson(line, at, what);
}

absl::Status ParseVector(const Json& value, std::vector<float>* vector) {
  if (!value.is_array() || value.empty()) return InvalidField("vector", Shown(value), "an array of numbers");
  vector->clear();
  vector->reserve(value.size());
  for (const Json& element : value) {
    if (!element.is_number()) {
      return InvalidField(StrCat("vector[", vector->size(), "]"), Shown(element), "a number");
    }
    const double number = element.get<double>();
    if (!(std::abs(number) <= std::numeric_limits<float>::max())) {
      return InvalidField(StrCat("vector[", vector->size(), "]"), Shown(element), "a number within float32");
    }
    vector->push_back(static_cast<float>(number));
  }
  return absl::OkStatus();
}

// "payload" wins; else the chosen fields that the object has.
absl::Status ParsePayload(const Json& object, const ReadOptions& options, Row* row) {
  if (const auto payload = object.find("payload"); payload != object.end()) {
    if (!payload->is_object()) return InvalidField("payload", Shown(*payload), "a JSON object");
    row->payload_json = payload->dump();
    return absl::OkStatus();
  }
  if (options.payload_fields.empty()) return absl::OkStatus();
  Json payload = Json::object();
  for (const std::string& field : options.payload_fields) {
    if (const auto value = object.find(field); value != object.end()) payload[field] = *value;
  }
  row->payload_json = payload.dump();
  return absl::OkStatus();
}

absl::Status ParseText(const Json& object, const std::string& field, Row* row) {
  const auto text = object.find(field);
  if (text == object.end()) return InvalidField(field, "absent", "a text (--text-field)");
  if (!text->is_string() || text->get_ref<const std::string&>().empty()) {
    return InvalidField(field, Shown(*text), "a text that is not empty (--text-field)");
  }
  if (object.contains("vector")) return InvalidField("vector", "given", "absent with --text-field");
  row->text = text->get<std::string>();
  return absl::OkStatus();
}

absl::Status ParseId(const Json& object, Row* row) {
  const auto id = object.find("id");
  if (id == object.end()) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(row->id, ItemIdFromJson(*id));
  return absl::OkStatus();
}

absl::Status ParseGeneration(const Json& object, Row* row) {
  const auto generation = object.find("generation");
  if (generation == object.end()) return absl::OkStatus();
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  const uint64_t number = generation->is_number_unsigned() ? generation->get<uint64_t>() : 0;
  if (number < 1 || number > kMax) {
    return InvalidField("generation", Shown(*generation), StrCat("an integer, 1 .. ", kMax));
  }
  row->generation = static_cast<uint32_t>(number);
  return absl::OkStatus();
}

// With options.refuse_unknown, INVALID_ARGUMENT names a field that nothing is made of.
absl::Status CheckFields(const Json& object, const ReadOptions& options, bool with_vector) {
  if (!options.refuse_unknown || !options.payload_fields.empty()) return absl::OkStatus();
  for (const auto& [name, value] : object.items()) {
    if (name == "id" || name == "generation" || name == "payload" || (with_vector && name == "vector")) continue;
    if (with_vector && !options.text_field.empty() && name == options.text_field) continue;
    return InvalidField(Shown(Json(name)), "unknown",
                        StrCat("id, generation, payload", with_vector ? ", vector" : "",
                               "; --payload-fields makes a payload of others, --ignore-fields passes over them"));
  }
  return absl::OkStatus();
}

// A reader of lines that skips empty ones and annotates errors with file and line.
template <typename Base>
class LineReader : public Base {
 public:
  using Parse = absl::Status (*)(const std::string&, const ReadOptions&, Row*);
  LineReader(std::unique_ptr<InputFile> file, ReadOptions options, Parse parse)
      : file_(std::move(file)), options_(std::move(options)), parse_(parse) {}

  absl::StatusOr<bool> Next(Row* row) override {
    do {
      LC_ASSIGN_OR_RETURN(const bool more, file_->ReadLine(&line_));
      if (!more) return false;
      ++number_;
      // An editor's mark of the whole file.
      if (number_ == 1 && line_.starts_with(kByteOrderMark)) line_.erase(0, kByteOrderMark.size());
    } while (line_.find_first_not_of(" \t\r") == std::string::npos);
    const absl::Status status = parse_(line_, options_, row);
    if (!status.ok()) return Annotate(status, StrCat("'", file_->path(), "' line ", number_));
    return true;
  }

 protected:
  const std::unique_ptr<InputFile> file_;
  std::string line_;

 private:
  const ReadOptions options_;
  const Parse parse_;
  int64_t number_ = 0;
};

class JsonlReader : public LineReader<RowReader> {
 public:
  using LineReader::LineReader;
  std::string_view text() const override { return line_; }
  int64_t rows() const override { return -1; }
  int64_t bytes_read() const override { return file_->bytes_read(); }
  int64_t bytes() const override { return file_->bytes(); }
};

}  // namespace

absl::StatusOr<Json> ParseJsonLine(const std::string& line, int depth_max) {
  if (JsonNestsDeeper(line, depth_max)) return InvalidField("nesting", "deeper", StrCat("1 .. ", depth_max));
  if (line.starts_with(kByteOrderMark)) return NotJson(line, 0, "U+FEFF, a byte order mark");
  if (const auto at = FirstNotUtf8(line))
    return NotJson(line, *at, StrCat("byte ", HexByte(line[*at]), " is no UTF-8"));
  try {
    return Json::parse(line);
  } catch (const Json::parse_error& error) {
    return ExplainJson(line, error.byte == 0 ? 0 : error.byte - 1, error.what());
  } catch (const Json::exception& error) {
    return InvalidArgument(StrCat("not a JSON value: ", std::string(error.what())));  // a number beyond double
  }
}

absl::Status CheckFinite(const std::vector<float>& vector) {
  for (size_t i = 0; i < vector.size(); ++i) {
    if (!std::isfinite(vector[i])) {
      return InvalidField(StrCat("vector[", i, "]"),
                          std::isnan(vector[i]) ? "NaN" : (vector[i] > 0 ? "infinite" : "-infinite"), "finite numbers");
    }
  }
  return absl::OkStatus();
}

std::string Shown(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80);
}

absl::Status ParseJsonRow(const std::string& line, const ReadOptions& options, Row* row) {
  LC_ASSIGN_OR_RETURN(const Json object, ParseJsonLine(line, kDepthMax));
  if (!object.is_object()) return InvalidField("row", Shown(object), "a JSON object with \"vector\"");
  *row = Row();
  if (!options.text_field.empty()) {
    LC_RETURN_IF_ERROR(ParseText(object, options.text_field, row));
  } else {
    const auto vector = object.find("vector");
    if (vector == object.end()) return InvalidField("vector", "absent", "an array of numbers");
    LC_RETURN_IF_ERROR(ParseVector(*vector, &row->vector));
  }
  LC_RETURN_IF_ERROR(ParseId(object, row));
  LC_RETURN_IF_ERROR(ParseGeneration(object, row));
  LC_RETURN_IF_ERROR(CheckFields(object, options, /*with_vector=*/true));
  return ParsePayload(object, options, row);
}

absl::Status ParseIdLine(const std::string& line, const ReadOptions& options, Row* row) {
  const absl::StatusOr<Json> parsed = ParseJsonLine(line, kDepthMax);
  if (!parsed.ok()) {
    // What begins as an object is meant to be one. Anything else is an id as people type it.
    const bool object = line.find('{') == line.find_first_not_of(" \t");
    if (object || !PartsOf(parsed.status()).field.empty()) return parsed.status();
    LC_ASSIGN_OR_RETURN(row->id, ParseItemId(line));
    return absl::OkStatus();
  }
  const Json& value = *parsed;
  if (value.is_object()) {
    if (!value.contains("id")) return InvalidField("id", "absent", "a text or an integer");
    LC_RETURN_IF_ERROR(ParseId(value, row));
    LC_RETURN_IF_ERROR(ParseGeneration(value, row));
    LC_RETURN_IF_ERROR(CheckFields(value, options, /*with_vector=*/false));
    return ParsePayload(value, options, row);
  }
  LC_ASSIGN_OR_RETURN(row->id, ItemIdFromJson(value));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RowReader>> OpenJsonlRows(std::unique_ptr<InputFile> file, const ReadOptions& options) {
  return std::unique_ptr<RowReader>(std::make_unique<JsonlReader>(std::move(file), options, &ParseJsonRow));
}

absl::StatusOr<std::unique_ptr<IdReader>> OpenIdLines(std::unique_ptr<InputFile> file, const ReadOptions& options) {
  return std::unique_ptr<IdReader>(std::make_unique<LineReader<IdReader>>(std::move(file), options, &ParseIdLine));
}

}  // namespace lightcone::cli
