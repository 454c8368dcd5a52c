#include "cli/formats/probe_lines.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "cli/formats/ids.h"
#include "cli/formats/readers.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

using Json = nlohmann::json;

constexpr int kProbeDepthMax = 16;

absl::Status ReadVector(const std::string& generation, const Json& values, v1::Probe* probe) {
  const std::string field = StrCat("vectors.", generation);
  uint32_t number = 0;
  if (!absl::SimpleAtoi(generation, &number) || number == 0) {
    return InvalidField(field, "no number of a generation", "\"1\", \"2\" ...");
  }
  if (!values.is_array() || values.empty()) return InvalidField(field, Shown(values), "an array of numbers");
  v1::ProbeVector* to = probe->add_vectors();
  to->set_generation(number);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool fits = values[i].is_number() && std::abs(values[i].get<double>()) <= std::numeric_limits<float>::max();
    if (!fits) return InvalidField(StrCat(field, "[", i, "]"), Shown(values[i]), "a number within float32");
    to->mutable_vector()->mutable_floats()->add_values(static_cast<float>(values[i].get<double>()));
  }
  return absl::OkStatus();
}

absl::Status ReadLabel(const Json& value, v1::FilterValue* label) {
  if (value.is_string()) {
    label->set_text(value.get<std::string>());
  } else if (value.is_boolean()) {
    label->set_boolean(value.get<bool>());
  } else if (value.is_number_float()) {
    label->set_number(value.get<double>());
  } else if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
    label->set_integer(value.get<int64_t>());
  } else {
    return InvalidField("label", Shown(value), "a text, a truth value or a number");
  }
  return absl::OkStatus();
}

absl::Status ReadField(const std::string& name, const Json& value, ProbeLine* out) {
  if (name == "relevant") {
    if (!value.is_array()) return InvalidField(name, Shown(value), "an array of ids");
    for (const Json& id : value) {
      LC_ASSIGN_OR_RETURN(*out->probe.add_relevant(), ItemIdFromJson(id));
    }
    return absl::OkStatus();
  }
  if (name == "label") return ReadLabel(value, out->probe.mutable_label());
  if (name == "item") {
    LC_ASSIGN_OR_RETURN(*out->probe.mutable_item(), ItemIdFromJson(value));
    return absl::OkStatus();
  }
  if (name == "image") {
    if (!value.is_string()) return InvalidField(name, Shown(value), "a path");
    out->image = value.get<std::string>();
    return absl::OkStatus();
  }
  if (name == "text") {
    if (!value.is_string()) return InvalidField(name, Shown(value), "a text");
    out->probe.mutable_input()->set_text(value.get<std::string>());
    return absl::OkStatus();
  }
  if (name != "vectors") return InvalidField(name, "unknown", "relevant, label, vectors, image, text, item");
  if (!value.is_object()) return InvalidField(name, Shown(value), "an object of vectors by generation");
  for (const auto& [generation, values] : value.items()) {
    LC_RETURN_IF_ERROR(ReadVector(generation, values, &out->probe));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ProbeLine> ParseProbeLine(const std::string& line) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseJsonLine(line, kProbeDepthMax));
  if (!json.is_object()) return InvalidField("line", Shown(json), "a JSON object");
  ProbeLine out;
  for (const auto& [name, value] : json.items()) LC_RETURN_IF_ERROR(ReadField(name, value, &out));
  if (json.contains("text") && json.contains("image")) return InvalidField("image", "given", "absent beside a text");
  return out;
}

}  // namespace lightcone::cli
