// One JSON object a line: {"id": 7, "generation": 2, "vector": [0.1, ...], "payload": {...}}.
#include <cmath>
#include <limits>
#include <utility>

#include "base/json_depth.h"
#include "base/status.h"
#include "cli/formats/ids.h"
#include "cli/formats/readers.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

using Json = nlohmann::json;

// Nested values are written by recursion, so a line of a million brackets must not get that far.
constexpr int kDepthMax = 128;

absl::StatusOr<Json> ParseLine(const std::string& line) {
  if (JsonNestsDeeper(line, kDepthMax)) return InvalidField("nesting", "deeper", StrCat("1 .. ", kDepthMax));
  return Json::parse(line, nullptr, /*allow_exceptions=*/false);
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
    } while (line_.find_first_not_of(" \t\r") == std::string::npos);
    const absl::Status status = parse_(line_, options_, row);
    if (!status.ok()) return Annotate(status, StrCat("'", file_->path(), "' line ", number_));
    return true;
  }

 protected:
  const std::unique_ptr<InputFile> file_;

 private:
  const ReadOptions options_;
  const Parse parse_;
  std::string line_;
  int64_t number_ = 0;
};

class JsonlReader : public LineReader<RowReader> {
 public:
  using LineReader::LineReader;
  int64_t rows() const override { return -1; }
  int64_t bytes_read() const override { return file_->bytes_read(); }
  int64_t bytes() const override { return file_->bytes(); }
};

}  // namespace

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
  LC_ASSIGN_OR_RETURN(const Json object, ParseLine(line));
  if (object.is_discarded()) return InvalidArgument("not a JSON value");
  if (!object.is_object()) return InvalidField("row", Shown(object), "a JSON object with \"vector\"");
  *row = Row();
  const auto vector = object.find("vector");
  if (vector == object.end()) return InvalidField("vector", "absent", "an array of numbers");
  LC_RETURN_IF_ERROR(ParseVector(*vector, &row->vector));
  LC_RETURN_IF_ERROR(ParseId(object, row));
  LC_RETURN_IF_ERROR(ParseGeneration(object, row));
  return ParsePayload(object, options, row);
}

absl::Status ParseIdLine(const std::string& line, const ReadOptions& options, Row* row) {
  LC_ASSIGN_OR_RETURN(const Json value, ParseLine(line));
  if (value.is_object()) {
    if (!value.contains("id")) return InvalidField("id", "absent", "a text or an integer");
    LC_RETURN_IF_ERROR(ParseId(value, row));
    LC_RETURN_IF_ERROR(ParseGeneration(value, row));
    return ParsePayload(value, options, row);
  }
  if (value.is_discarded()) {
    LC_ASSIGN_OR_RETURN(row->id, ParseItemId(line));
    return absl::OkStatus();
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
