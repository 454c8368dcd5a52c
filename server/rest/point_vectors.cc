#include "server/rest/point_vectors.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "server/rest/point_filter.h"

namespace lightcone::server {
namespace {

using nlohmann::json;

constexpr std::string_view kNumbered = "gen-";

bool ManifestNames(const std::string& manifest_json, const std::string& name) {
  const json manifest = json::parse(manifest_json, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object()) return false;
  for (const char* member : {"model", "name"}) {
    const auto found = manifest.find(member);
    if (found != manifest.end() && found->is_string() && found->get_ref<const std::string&>() == name) return true;
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> PathsFrom(const json& paths, const std::string& field) {
  if (!paths.is_array()) return InvalidField(field, ShownJson(paths), "an array of paths");
  std::vector<std::string> out;
  for (const json& path : paths) {
    const std::string at = StrCat(field, "[", out.size(), "]");
    if (!path.is_string()) return InvalidField(at, ShownJson(path), "a path into the payload");
    LC_ASSIGN_OR_RETURN(std::string one, PayloadPathFrom(path.get<std::string>(), at));
    out.push_back(std::move(one));
  }
  return out;
}

absl::Status ReadPayloadPart(const json& given, const std::string& field, PointParts* parts) {
  if (given.is_boolean()) {
    parts->payload = given.get<bool>();
    return absl::OkStatus();
  }
  if (given.is_array()) {
    LC_ASSIGN_OR_RETURN(parts->selection.include, PathsFrom(given, field));
    parts->payload = !parts->selection.include.empty();
    return absl::OkStatus();
  }
  if (!given.is_object()) {
    return InvalidField(field, ShownJson(given), "true, false, an array of paths, {include} or {exclude}");
  }
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(given, field));
  parts->payload = true;
  if (const json* include = fields.Find("include")) {
    LC_ASSIGN_OR_RETURN(parts->selection.include, PathsFrom(*include, fields.At("include")));
    parts->payload = !parts->selection.include.empty();
  }
  if (const json* exclude = fields.Find("exclude")) {
    LC_ASSIGN_OR_RETURN(parts->selection.exclude, PathsFrom(*exclude, fields.At("exclude")));
  }
  return absl::OkStatus();
}

absl::Status ReadVectorPart(const json& given, const std::string& field, PointParts* parts) {
  if (given.is_boolean()) {
    parts->vector = given.get<bool>();
    return absl::OkStatus();
  }
  if (!given.is_array() || given.size() > 1) {
    return InvalidField(field, ShownJson(given), "true, false, or an array with one name");
  }
  if (given.size() == 1 && !given[0].is_string()) {
    return InvalidField(StrCat(field, "[0]"), ShownJson(given[0]), "the name of a vector");
  }
  parts->vector = !given.empty();
  if (parts->vector) parts->vector_name = given[0].get<std::string>();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint32_t> GenerationNames::Find(const std::string& name, std::string_view field) {
  if (name.empty()) return uint32_t{0};
  const auto known = found_.find(name);
  if (known != found_.end()) return known->second;
  LC_ASSIGN_OR_RETURN(const uint32_t generation, LookUp(name, field));
  found_.emplace(name, generation);
  return generation;
}

absl::StatusOr<uint32_t> GenerationNames::LookUp(const std::string& name, std::string_view field) {
  LC_ASSIGN_OR_RETURN(const std::vector<GenerationStatus> all, engine_->ListGenerations(collection_));
  if (name.starts_with(kNumbered)) {
    uint32_t number = 0;
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + kNumbered.size(), end, number);
    for (const GenerationStatus& one : all) {
      if (read.ec == std::errc() && read.ptr == end && one.generation == number) return number;
    }
  }
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (one->state == GenerationState::kDraft || one->state == GenerationState::kRetired) continue;
    LC_ASSIGN_OR_RETURN(const GenerationStatus status, engine_->GetGeneration(collection_, one->generation));
    if (ManifestNames(status.manifest_json, name)) return one->generation;
  }
  const auto append = [](std::string* out, const GenerationStatus& one) { *out += StrCat("gen-", one.generation); };
  return NotFound(StrCat(field, ": no vector named ", ShownJson(name), " in collection '", collection_,
                         "'; there are: ", all.empty() ? "none" : absl::StrJoin(all, ", ", append)));
}

absl::StatusOr<std::vector<float>> VectorFrom(const json& value, const std::string& field) {
  if (!value.is_array()) return InvalidField(field, ShownJson(value), "an array of numbers");
  std::vector<float> vector;
  vector.reserve(value.size());
  for (const json& number : value) {
    if (number.is_array()) return NotSupported(field, "a point has one vector, not a list of vectors");
    const double x = number.is_number() ? number.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(std::fabs(x) <= std::numeric_limits<float>::max())) {
      return InvalidField(StrCat(field, "[", vector.size(), "]"), ShownJson(number), "a finite number of 32 bits");
    }
    vector.push_back(static_cast<float>(x));
  }
  return vector;
}

absl::StatusOr<NamedVector> NamedVectorFrom(const json& value, const std::string& field) {
  if (!value.is_object()) {
    LC_ASSIGN_OR_RETURN(std::vector<float> vector, VectorFrom(value, field));
    return NamedVector{"", std::move(vector)};
  }
  if (value.contains("indices")) return NotSupported(field, "there are no sparse vectors");
  if (value.contains("image") || value.contains("object")) {
    return NotSupported(field, "inference takes {text, model} alone; images go in over gRPC");
  }
  const auto text = value.find("text");
  if (text != value.end() && text->is_string()) {
    NamedVector named;
    named.content = RawInput(TextInput{text->get<std::string>()});
    if (value.contains("model") && value["model"].is_string()) named.name = value["model"].get<std::string>();
    return named;
  }
  if (value.empty())
    return InvalidField(field, "an object without a vector", "an array of numbers, or one named vector");
  if (value.size() > 1) return NotSupported(field, "a call gives one vector for each point; names are generations");
  const std::string& name = value.begin().key();
  LC_ASSIGN_OR_RETURN(NamedVector named,
                      NamedVectorFrom(value.begin().value(), StrCat(field, ".", name.substr(0, 60))));
  if (named.name.empty()) named.name = name;
  return named;
}

absl::StatusOr<PointParts> PointPartsOf(const Fields& body, bool payload_by_default) {
  PointParts parts;
  parts.payload = payload_by_default;
  if (const json* payload = body.Find("with_payload")) {
    LC_RETURN_IF_ERROR(ReadPayloadPart(*payload, body.At("with_payload"), &parts));
  }
  for (const char* name : {"with_vector", "with_vectors"}) {
    if (const json* vector = body.Find(name)) LC_RETURN_IF_ERROR(ReadVectorPart(*vector, body.At(name), &parts));
  }
  return parts;
}

absl::Status FindVectorGeneration(const RestCall& call, PointParts* parts) {
  LC_ASSIGN_OR_RETURN(parts->vector_generation,
                      GenerationNames(&call.engine, call.collection()).Find(parts->vector_name, "with_vector"));
  return absl::OkStatus();
}

}  // namespace lightcone::server
