#include "models/manifest.h"

#include <cmath>

#include "base/files.h"
#include "base/status.h"
#include "models/json_fields.h"

namespace lightcone {
namespace {

using internal::ReadField;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kManifestBytesMax = 16 << 20;

bool IsOneOf(std::string_view value, std::initializer_list<std::string_view> words) {
  for (std::string_view word : words) {
    if (value == word) return true;
  }
  return false;
}

absl::Status CheckPositive(const char* field, double value, double max) {
  if (std::isfinite(value) && value > 0 && value <= max) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat("above 0, at most ", max));
}

absl::Status CheckRange(const char* field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat(min, " .. ", max));
}

absl::Status CheckInput(const ManifestInput& input) {
  LC_RETURN_IF_ERROR(CheckRange("manifest.input.height", input.height, 1, 4096));
  LC_RETURN_IF_ERROR(CheckRange("manifest.input.width", input.width, 1, 4096));
  if (input.channels != 1 && input.channels != 3) {
    return InvalidField("manifest.input.channels", StrCat(input.channels), "1 or 3");
  }
  const size_t channels = static_cast<size_t>(input.channels);
  if (input.mean.size() != channels) {
    return InvalidField("manifest.input.mean", StrCat(input.mean.size(), " values"), StrCat(channels, " values"));
  }
  if (input.stddev.size() != channels) {
    return InvalidField("manifest.input.stddev", StrCat(input.stddev.size(), " values"), StrCat(channels, " values"));
  }
  for (float value : input.mean) {
    if (!std::isfinite(value)) return InvalidField("manifest.input.mean", StrCat(value), "finite numbers");
  }
  for (float value : input.stddev) LC_RETURN_IF_ERROR(CheckPositive("manifest.input.stddev", value, 1e6));
  return absl::OkStatus();
}

}  // namespace

absl::Status Manifest::Validate() const {
  if (format > kFormat) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "manifest.format", StrCat(format),
                      StrCat("1 .. ", kFormat, " (this file needs a newer Lightcone)"));
  }
  LC_RETURN_IF_ERROR(CheckRange("manifest.format", format, 1, kFormat));
  if (name.empty() || name.size() > 128) {
    return InvalidField("manifest.name", StrCat(name.size(), " characters"), "1 .. 128 characters");
  }
  if (architecture.empty() || architecture.size() > 128) {
    return InvalidField("manifest.architecture", StrCat(architecture.size(), " characters"), "1 .. 128 characters");
  }
  LC_RETURN_IF_ERROR(CheckPositive("manifest.width", width, 64));
  if (!IsOneOf(stem, {"", "cifar", "imagenet"})) return InvalidField("manifest.stem", stem, "empty, cifar or imagenet");
  if (backbone.size() > 4096) {
    return InvalidField("manifest.backbone", StrCat(backbone.size(), " characters"), "0 .. 4096 characters");
  }
  LC_RETURN_IF_ERROR(CheckRange("manifest.dimension", dimension, 1, 65536));
  if (compatible_prefix != 0 && (compatible_prefix < 2 || compatible_prefix > dimension)) {
    return InvalidField("manifest.compatible_prefix", StrCat(compatible_prefix), StrCat("0, or 2 .. ", dimension));
  }
  if (!IsOneOf(metric, {"lorentz", "cosine", "inner_product", "euclidean"})) {
    return InvalidField("manifest.metric", metric, "lorentz, cosine, inner_product or euclidean");
  }
  LC_RETURN_IF_ERROR(CheckPositive("manifest.curvature", curvature, 1e4));
  LC_RETURN_IF_ERROR(CheckPositive("manifest.clip_radius", clip_radius, 1e4));
  if (!IsOneOf(rescale, {"none", "fixed", "learnable"})) {
    return InvalidField("manifest.rescale", rescale, "none, fixed or learnable");
  }
  LC_RETURN_IF_ERROR(CheckInput(input));
  if (method.empty()) return InvalidField("manifest.method", "''", "the name of a training method");
  LC_RETURN_IF_ERROR(CheckRange("manifest.classes", classes, 0, 100'000'000));
  if (encoder_file.empty() || encoder_file.size() > 255 || encoder_file.find('/') != std::string::npos ||
      encoder_file.find('\0') != std::string::npos || encoder_file == "." || encoder_file == "..") {
    return InvalidField("manifest.encoder_file", encoder_file, "a file name in the manifest's folder");
  }
  return absl::OkStatus();
}

std::string ToJson(const Manifest& m) {
  ordered_json out;
  out["format"] = m.format;
  out["name"] = m.name;
  out["architecture"] = m.architecture;
  out["width"] = m.width;
  out["stem"] = m.stem;
  out["backbone"] = m.backbone;
  out["frozen"] = m.frozen;
  out["dimension"] = m.dimension;
  out["compatible_prefix"] = m.compatible_prefix;
  out["through_adapter"] = m.through_adapter;
  out["metric"] = m.metric;
  out["curvature"] = m.curvature;
  out["clip_radius"] = m.clip_radius;
  out["rescale"] = m.rescale;
  out["input"] = {{"height", m.input.height},
                  {"width", m.input.width},
                  {"channels", m.input.channels},
                  {"mean", m.input.mean},
                  {"stddev", m.input.stddev}};
  out["method"] = m.method;
  out["parent"] = m.parent;
  out["parent_crc32c"] = m.parent_crc32c;
  out["classes"] = m.classes;
  out["encoder_file"] = m.encoder_file;
  out["encoder_crc32c"] = m.encoder_crc32c;
  const TrainingSummary& t = m.training;
  ordered_json training = {{"dataset", t.dataset},      {"recipe", t.recipe},
                           {"epochs", t.epochs},        {"steps", t.steps},
                           {"images", t.images},        {"seed", t.seed},
                           {"seconds", t.seconds},      {"images_per_second", t.images_per_second},
                           {"final_loss", t.final_loss}};
  if (!t.config_json.empty()) {
    ordered_json config = ordered_json::parse(t.config_json, nullptr, /*allow_exceptions=*/false);
    if (config.is_object()) training["config"] = std::move(config);
  }
  out["training"] = std::move(training);
  return out.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

namespace {

absl::Status ReadInput(const json& object, ManifestInput& input) {
  const std::string p = "manifest.input";
  LC_RETURN_IF_ERROR(ReadField(object, p, "height", true, input.height));
  LC_RETURN_IF_ERROR(ReadField(object, p, "width", true, input.width));
  LC_RETURN_IF_ERROR(ReadField(object, p, "channels", true, input.channels));
  LC_RETURN_IF_ERROR(ReadField(object, p, "mean", true, input.mean));
  return ReadField(object, p, "stddev", true, input.stddev);
}

absl::Status ReadSummary(const json& object, TrainingSummary& t) {
  const std::string p = "manifest.training";
  LC_RETURN_IF_ERROR(ReadField(object, p, "dataset", false, t.dataset));
  LC_RETURN_IF_ERROR(ReadField(object, p, "recipe", false, t.recipe));
  LC_RETURN_IF_ERROR(ReadField(object, p, "epochs", false, t.epochs));
  LC_RETURN_IF_ERROR(ReadField(object, p, "steps", false, t.steps));
  LC_RETURN_IF_ERROR(ReadField(object, p, "images", false, t.images));
  LC_RETURN_IF_ERROR(ReadField(object, p, "seed", false, t.seed));
  LC_RETURN_IF_ERROR(ReadField(object, p, "seconds", false, t.seconds));
  LC_RETURN_IF_ERROR(ReadField(object, p, "images_per_second", false, t.images_per_second));
  LC_RETURN_IF_ERROR(ReadField(object, p, "final_loss", false, t.final_loss));
  if (object.contains("config")) {
    if (!object["config"].is_object()) {
      return InvalidField(p + ".config", internal::ShortDump(object["config"]), "an object");
    }
    t.config_json = object["config"].dump(-1, ' ', true, json::error_handler_t::replace);
  }
  return absl::OkStatus();
}

absl::Status ReadFields(const json& object, Manifest& m) {
  const std::string p = "manifest";
  LC_RETURN_IF_ERROR(ReadField(object, p, "name", true, m.name));
  LC_RETURN_IF_ERROR(ReadField(object, p, "architecture", true, m.architecture));
  LC_RETURN_IF_ERROR(ReadField(object, p, "width", false, m.width));
  LC_RETURN_IF_ERROR(ReadField(object, p, "stem", false, m.stem));
  LC_RETURN_IF_ERROR(ReadField(object, p, "backbone", false, m.backbone));
  LC_RETURN_IF_ERROR(ReadField(object, p, "frozen", false, m.frozen));
  LC_RETURN_IF_ERROR(ReadField(object, p, "dimension", true, m.dimension));
  LC_RETURN_IF_ERROR(ReadField(object, p, "compatible_prefix", false, m.compatible_prefix));
  LC_RETURN_IF_ERROR(ReadField(object, p, "through_adapter", false, m.through_adapter));
  LC_RETURN_IF_ERROR(ReadField(object, p, "metric", true, m.metric));
  LC_RETURN_IF_ERROR(ReadField(object, p, "curvature", m.metric == "lorentz", m.curvature));
  LC_RETURN_IF_ERROR(ReadField(object, p, "clip_radius", m.metric == "lorentz", m.clip_radius));
  LC_RETURN_IF_ERROR(ReadField(object, p, "rescale", false, m.rescale));
  LC_RETURN_IF_ERROR(ReadField(object, p, "method", false, m.method));
  LC_RETURN_IF_ERROR(ReadField(object, p, "parent", false, m.parent));
  LC_RETURN_IF_ERROR(ReadField(object, p, "parent_crc32c", false, m.parent_crc32c));
  LC_RETURN_IF_ERROR(ReadField(object, p, "classes", false, m.classes));
  LC_RETURN_IF_ERROR(ReadField(object, p, "encoder_file", true, m.encoder_file));
  LC_RETURN_IF_ERROR(ReadField(object, p, "encoder_crc32c", true, m.encoder_crc32c));
  if (!object.contains("input") || !object["input"].is_object()) {
    return InvalidField("manifest.input", object.contains("input") ? internal::ShortDump(object["input"]) : "missing",
                        "an object");
  }
  LC_RETURN_IF_ERROR(ReadInput(object["input"], m.input));
  if (object.contains("training")) {
    if (!object["training"].is_object()) {
      return InvalidField("manifest.training", internal::ShortDump(object["training"]), "an object");
    }
    LC_RETURN_IF_ERROR(ReadSummary(object["training"], m.training));
  }
  return absl::OkStatus();
}

std::string ManifestPath(const std::string& folder_or_file) {
  constexpr std::string_view kSuffix = ".json";
  if (folder_or_file.size() > kSuffix.size() && folder_or_file.ends_with(kSuffix)) return folder_or_file;
  return folder_or_file + "/manifest.json";
}

}  // namespace

absl::StatusOr<Manifest> ParseManifest(std::string_view text) {
  const json object = internal::ParseBounded(text);
  if (!object.is_object()) {
    return InvalidField("manifest", object.is_discarded() ? "malformed JSON" : internal::ShortDump(object),
                        "a JSON object");
  }
  Manifest manifest;
  LC_RETURN_IF_ERROR(ReadField(object, "manifest", "format", true, manifest.format));
  if (manifest.format != Manifest::kFormat) {  // before anything else: a newer format may have other fields
    LC_RETURN_IF_ERROR(manifest.Validate());
  }
  LC_RETURN_IF_ERROR(ReadFields(object, manifest));
  LC_RETURN_IF_ERROR(manifest.Validate());
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder_or_file) {
  const std::string path = ManifestPath(folder_or_file);
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kManifestBytesMax));
  absl::StatusOr<Manifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return Annotate(manifest.status(), StrCat("manifest '", path, "'"));
  return manifest;
}

absl::Status WriteManifest(const std::string& folder, const Manifest& manifest) {
  LC_RETURN_IF_ERROR(manifest.Validate());
  return WriteFileAtomically(folder + "/manifest.json", ToJson(manifest));
}

absl::StatusOr<Space> SpaceOf(const Manifest& manifest) {
  Space space;
  LC_ASSIGN_OR_RETURN(space.metric, ParseMetric(manifest.metric));
  space.dimension = manifest.dimension;
  space.curvature = manifest.curvature;
  space.clip_radius = manifest.clip_radius;
  LC_RETURN_IF_ERROR(space.Validate());
  return space;
}

bool EndsWithAdapter(std::string_view method) { return method == "lightcone"; }

}  // namespace lightcone
