#include "models/adapter_file.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/files.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/utf8.h"
#include "models/checkpoint.h"
#include "models/json_fields.h"

namespace lightcone {
namespace {

using internal::ReadField;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kHeaderSection[] = "adapter";
constexpr size_t kLabelBytesMax = 128;

struct Part {
  const char* name;
  std::vector<float> AdapterSpec::*values;
};
constexpr Part kParts[] = {{"linear", &AdapterSpec::linear}, {"offset", &AdapterSpec::offset},
                           {"hidden", &AdapterSpec::hidden}, {"hidden_offset", &AdapterSpec::hidden_offset},
                           {"output", &AdapterSpec::output}, {"head_weights", &AdapterSpec::head_weights}};

std::string_view HeadName(AdapterHead head) {
  return head == AdapterHead::kHidden ? "hidden" : head == AdapterHead::kInput ? "input" : "none";
}

absl::StatusOr<AdapterHead> ParseHead(const std::string& text) {
  for (const AdapterHead head : {AdapterHead::kNone, AdapterHead::kInput, AdapterHead::kHidden}) {
    if (HeadName(head) == text) return head;
  }
  return InvalidField("adapter.head", StrCat("'", text, "'"), "none, input, hidden");
}

absl::Status CheckLabel(const char* field, const std::string& label) {
  if (label.size() > kLabelBytesMax || !IsUtf8(label)) {
    return InvalidField(field, StrCat(label.size(), " bytes"), StrCat("0 .. ", kLabelBytesMax, " bytes of UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const char* field, int64_t value) {
  return value >= 0 ? absl::OkStatus() : InvalidField(field, StrCat(value), "0 or more");
}

absl::Status CheckFigure(const char* field, double value) {
  return std::isfinite(value) ? absl::OkStatus() : InvalidField(field, StrCat(value), "a finite number");
}

// Space::Validate looks at these two under Lorentz only, but JSON has no word for what is not finite.
absl::Status CheckNumbers(const std::string& field, const Space& space) {
  LC_RETURN_IF_ERROR(CheckFigure((field + ".curvature").c_str(), space.curvature));
  return CheckFigure((field + ".clip_radius").c_str(), space.clip_radius);
}

absl::Status CheckSource(const Space& source, const AdapterSpec& spec) {
  LC_RETURN_IF_ERROR(CheckNumbers("adapter.source", source));
  if (source.dimension != spec.input_dimension) {
    return InvalidField("adapter.source.dimension", StrCat(source.dimension),
                        StrCat(spec.input_dimension, ", the adapter's input_dimension"));
  }
  const absl::Status valid = source.Validate();
  if (valid.ok()) return valid;
  const FieldErrorParts parts = PartsOf(valid);
  return InvalidField(StrCat("adapter.source.", parts.field), parts.value, parts.allowed);
}

absl::Status Check(const AdapterFile& file) {
  LC_RETURN_IF_ERROR(CheckLabel("adapter.from", file.from));
  LC_RETURN_IF_ERROR(CheckLabel("adapter.to", file.to));
  LC_RETURN_IF_ERROR(CheckLabel("adapter.fit.loss", file.fit.loss));
  LC_RETURN_IF_ERROR(CheckCount("adapter.fit.pairs", file.fit.pairs));
  LC_RETURN_IF_ERROR(CheckCount("adapter.fit.held_out_pairs", file.fit.held_out_pairs));
  LC_RETURN_IF_ERROR(CheckCount("adapter.fit.steps", file.fit.steps));
  LC_RETURN_IF_ERROR(CheckFigure("adapter.fit.held_out_error", file.fit.held_out_error));
  LC_RETURN_IF_ERROR(CheckFigure("adapter.fit.baseline_error", file.fit.baseline_error));
  LC_RETURN_IF_ERROR(CheckFigure("adapter.fit.ridge", file.fit.ridge));
  LC_RETURN_IF_ERROR(CheckFigure("adapter.fit.head_r2", file.fit.head_r2));
  LC_RETURN_IF_ERROR(CheckLabel("adapter.fit.compared_by", file.fit.compared_by));
  if (file.fit.compared.size() > AdapterFit::kComparedMax) {
    return InvalidField("adapter.fit.compared", StrCat(file.fit.compared.size(), " maps"),
                        StrCat("0 .. ", AdapterFit::kComparedMax));
  }
  for (const ComparedMap& one : file.fit.compared) {
    LC_RETURN_IF_ERROR(CheckLabel("adapter.fit.compared.map", one.map));
    LC_RETURN_IF_ERROR(CheckFigure("adapter.fit.compared.held_out_loss", one.held_out_loss));
  }
  LC_RETURN_IF_ERROR(CheckNumbers("adapter.target", file.spec.target));
  LC_RETURN_IF_ERROR(file.spec.Validate());
  return file.source ? CheckSource(*file.source, file.spec) : absl::OkStatus();
}

// All of a space but its dimension.
absl::Status ReadSpace(const json& object, const std::string& field, Space& space) {
  std::string metric;
  LC_RETURN_IF_ERROR(ReadField(object, field, "metric", true, metric));
  LC_RETURN_IF_ERROR(ReadField(object, field, "curvature", false, space.curvature));
  LC_RETURN_IF_ERROR(ReadField(object, field, "clip_radius", false, space.clip_radius));
  const absl::StatusOr<Metric> parsed = ParseMetric(metric);
  if (!parsed.ok()) {
    return InvalidField(field + ".metric", StrCat("'", metric, "'"), "lorentz, cosine, inner_product, euclidean");
  }
  space.metric = *parsed;
  return absl::OkStatus();
}

absl::Status ReadSource(const json& object, AdapterFile& file) {
  const auto found = object.find("source");
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_object()) return InvalidField("adapter.source", internal::ShortDump(*found), "an object");
  file.source.emplace();
  file.source->dimension = file.spec.input_dimension;
  return ReadSpace(*found, "adapter.source", *file.source);
}

absl::Status ReadCompared(const json& fit, AdapterFit& to) {
  const auto found = fit.find("compared");
  if (found == fit.end()) return absl::OkStatus();
  if (!found->is_array() || found->size() > AdapterFit::kComparedMax) {
    return InvalidField("adapter.fit.compared", internal::ShortDump(*found),
                        StrCat("a list of at most ", AdapterFit::kComparedMax, " objects"));
  }
  for (const json& one : *found) {
    const std::string prefix = StrCat("adapter.fit.compared[", to.compared.size(), "]");
    if (!one.is_object()) return InvalidField(prefix, internal::ShortDump(one), "an object");
    ComparedMap& map = to.compared.emplace_back();
    LC_RETURN_IF_ERROR(ReadField(one, prefix, "map", true, map.map));
    LC_RETURN_IF_ERROR(ReadField(one, prefix, "held_out_loss", true, map.held_out_loss));
  }
  return absl::OkStatus();
}

absl::Status ReadFit(const json& object, AdapterFit& fit) {
  const std::string prefix = "adapter.fit";
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "loss", false, fit.loss));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "pairs", false, fit.pairs));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "held_out_pairs", false, fit.held_out_pairs));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "steps", false, fit.steps));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "held_out_error", false, fit.held_out_error));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "baseline_error", false, fit.baseline_error));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "ridge", false, fit.ridge));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "head_r2", false, fit.head_r2));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "seed", false, fit.seed));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "compared_by", false, fit.compared_by));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "matched", false, fit.matched));
  LC_RETURN_IF_ERROR(ReadField(object, prefix, "held_out_from", false, fit.held_out_from));
  return ReadCompared(object, fit);
}

absl::Status ReadSpec(const json& object, AdapterSpec& spec) {
  std::string direction, kind, head = "none";
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "direction", true, direction));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "map", true, kind));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "input_dimension", true, spec.input_dimension));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "width", false, spec.width));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "input_radius", false, spec.input_radius));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "sharpness", false, spec.sharpness));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "unit_input", false, spec.unit_input));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "head", false, head));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "head_bias", false, spec.head_bias));
  LC_ASSIGN_OR_RETURN(spec.direction, ParseAdapterDirection(direction));
  LC_ASSIGN_OR_RETURN(spec.kind, ParseAdapterKind(kind));
  LC_ASSIGN_OR_RETURN(spec.head, ParseHead(head));
  const auto target = object.find("target");
  if (target == object.end() || !target->is_object()) {
    return InvalidField("adapter.target", target == object.end() ? "missing" : internal::ShortDump(*target),
                        "an object");
  }
  LC_RETURN_IF_ERROR(ReadField(*target, "adapter.target", "dimension", true, spec.target.dimension));
  return ReadSpace(*target, "adapter.target", spec.target);
}

absl::StatusOr<AdapterFile> ReadHeader(std::string_view text) {
  const json object = internal::ParseBounded(text);
  if (!object.is_object()) return InvalidField("adapter", "malformed JSON", "one JSON object");
  int format = 0;
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "format", true, format));
  if (format > AdapterFile::kFormat) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "adapter.format", StrCat(format),
                      StrCat("1 .. ", AdapterFile::kFormat, " (this file needs a newer Lightcone)"));
  }
  if (format < 1) return InvalidField("adapter.format", StrCat(format), StrCat("1 .. ", AdapterFile::kFormat));
  AdapterFile file;
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "from", false, file.from));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "to", false, file.to));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "from_crc32c", false, file.from_crc32c));
  LC_RETURN_IF_ERROR(ReadField(object, "adapter", "to_crc32c", false, file.to_crc32c));
  LC_RETURN_IF_ERROR(ReadSpec(object, file.spec));
  LC_RETURN_IF_ERROR(ReadSource(object, file));
  const auto fit = object.find("fit");
  if (fit != object.end() && !fit->is_object()) {
    return InvalidField("adapter.fit", internal::ShortDump(*fit), "an object");
  }
  if (fit != object.end()) LC_RETURN_IF_ERROR(ReadFit(*fit, file.fit));
  return file;
}

absl::Status CheckEncoder(const char* field, uint32_t crc32c, const std::string& label, const AdapterEnd& end) {
  if (crc32c == 0 || end.encoder_crc32c == 0 || crc32c == end.encoder_crc32c) return absl::OkStatus();
  return InvalidField(
      field, StrCat(crc32c),
      StrCat(end.encoder_crc32c, ", of the encoder of ", end.name, ": the adapter was fitted with another model",
             label.empty() ? "" : StrCat(", '", label, "'")));
}

// Outside Lorentz nobody looks at curvature and clip radius.
absl::Status CheckSpaceIs(const std::string& field, const Space& space, const AdapterEnd& end) {
  const std::string of = StrCat(", of ", end.name);
  if (space.metric != end.space.metric) {
    return InvalidField(field + ".metric", MetricName(space.metric), StrCat(MetricName(end.space.metric), of));
  }
  if (space.dimension != end.space.dimension) {
    return InvalidField(field + ".dimension", StrCat(space.dimension), StrCat(end.space.dimension, of));
  }
  if (space.metric != Metric::kLorentz) return absl::OkStatus();
  if (space.curvature != end.space.curvature) {
    return InvalidField(field + ".curvature", StrCat(space.curvature), StrCat(end.space.curvature, of));
  }
  if (space.clip_radius != end.space.clip_radius) {
    return InvalidField(field + ".clip_radius", StrCat(space.clip_radius), StrCat(end.space.clip_radius, of));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t PlaceInFit(uint64_t seed, uint64_t item) { return MixSeed({seed, 0x5b117u, item}); }

uint32_t EncoderCrc32cOf(std::string_view manifest_json) {
  const json manifest = internal::ParseBounded(manifest_json);
  if (!manifest.is_object()) return 0;
  const auto found = manifest.find("encoder_crc32c");
  if (found == manifest.end() || !found->is_number_unsigned()) return 0;
  const uint64_t crc32c = found->get<uint64_t>();
  return crc32c <= UINT32_MAX ? static_cast<uint32_t>(crc32c) : 0;
}

absl::Status CheckFittedBetween(const AdapterFile& file, const AdapterEnd& from, const AdapterEnd& to) {
  LC_RETURN_IF_ERROR(CheckSpaceIs("adapter.target", file.spec.target, to));
  LC_RETURN_IF_ERROR(CheckEncoder("adapter.from_crc32c", file.from_crc32c, file.from, from));
  LC_RETURN_IF_ERROR(CheckEncoder("adapter.to_crc32c", file.to_crc32c, file.to, to));
  return file.source ? CheckSpaceIs("adapter.source", *file.source, from) : absl::OkStatus();
}

std::string ChoiceText(const AdapterFile& file) {
  if (file.fit.compared.empty()) return "";
  std::string text =
      StrCat(AdapterKindName(file.spec.kind), " has the least held-out loss ", file.fit.compared_by, ":");
  const char* before = " ";
  for (const ComparedMap& one : file.fit.compared) {
    text += StrCat(before, one.map, " ", one.held_out_loss);
    before = ", ";
  }
  return text;
}

std::string AdapterHeaderJson(const AdapterFile& file) {
  const AdapterSpec& spec = file.spec;
  ordered_json out;
  out["format"] = spec.unit_input ? AdapterFile::kFormat : 1;  // an older reader would take rows as they are
  out["direction"] = std::string(AdapterDirectionName(spec.direction));
  out["map"] = std::string(AdapterKindName(spec.kind));
  out["from"] = file.from;
  out["to"] = file.to;
  if (file.from_crc32c != 0) out["from_crc32c"] = file.from_crc32c;
  if (file.to_crc32c != 0) out["to_crc32c"] = file.to_crc32c;
  out["input_dimension"] = spec.input_dimension;
  out["width"] = spec.width;
  if (spec.kind == AdapterKind::kKernel) {
    out["input_radius"] = spec.input_radius;
    out["sharpness"] = spec.sharpness;
  }
  if (spec.unit_input) out["unit_input"] = true;
  if (file.source) {
    out["source"] = {{"metric", std::string(MetricName(file.source->metric))},
                     {"curvature", file.source->curvature},
                     {"clip_radius", file.source->clip_radius}};
  }
  out["target"] = {{"metric", std::string(MetricName(spec.target.metric))},
                   {"dimension", spec.target.dimension},
                   {"curvature", spec.target.curvature},
                   {"clip_radius", spec.target.clip_radius}};
  out["head"] = std::string(HeadName(spec.head));
  out["head_bias"] = spec.head_bias;
  out["fit"] = {{"loss", file.fit.loss},
                {"pairs", file.fit.pairs},
                {"held_out_pairs", file.fit.held_out_pairs},
                {"steps", file.fit.steps},
                {"held_out_error", file.fit.held_out_error},
                {"baseline_error", file.fit.baseline_error},
                {"ridge", file.fit.ridge},
                {"head_r2", file.fit.head_r2},
                {"seed", file.fit.seed}};
  if (file.fit.matched) out["fit"]["matched"] = true;
  if (file.fit.held_out_from != 0) out["fit"]["held_out_from"] = file.fit.held_out_from;
  if (!file.fit.compared.empty()) {
    out["fit"]["compared_by"] = file.fit.compared_by;
    for (const ComparedMap& one : file.fit.compared) {
      out["fit"]["compared"].push_back({{"map", one.map}, {"held_out_loss", one.held_out_loss}});
    }
  }
  // Labels may not be UTF-8 before Check() has seen them.
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::string> EncodeAdapter(const AdapterFile& file) {
  LC_RETURN_IF_ERROR(Check(file));
  Checkpoint checkpoint;
  checkpoint.sections[kHeaderSection] = AdapterHeaderJson(file);
  for (const Part& part : kParts) {
    const std::vector<float>& values = file.spec.*part.values;
    if (values.empty()) continue;
    // Little-endian machines only, as everywhere in Lightcone's files.
    checkpoint.sections[part.name] =
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return EncodeCheckpoint(checkpoint);
}

absl::StatusOr<AdapterFile> ParseAdapter(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Checkpoint checkpoint, ParseCheckpoint(bytes));
  const auto header = checkpoint.sections.find(kHeaderSection);
  if (header == checkpoint.sections.end()) return DataLoss("not an adapter: the file has no section 'adapter'");
  LC_ASSIGN_OR_RETURN(AdapterFile file, ReadHeader(header->second));
  for (const Part& part : kParts) {
    const auto section = checkpoint.sections.find(part.name);
    if (section == checkpoint.sections.end()) continue;
    const std::string& content = section->second;
    if (content.size() % sizeof(float) != 0) {
      return InvalidField(StrCat("adapter.", part.name), StrCat(content.size(), " bytes"), "4 bytes a number");
    }
    std::vector<float>& values = file.spec.*part.values;
    values.resize(content.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), content.data(), content.size());
  }
  LC_RETURN_IF_ERROR(Check(file));
  return file;
}

absl::Status WriteAdapter(const std::string& path, const AdapterFile& file) {
  LC_ASSIGN_OR_RETURN(const std::string bytes, EncodeAdapter(file));
  return WriteFileAtomically(path, bytes);
}

absl::StatusOr<AdapterFile> ReadAdapter(const std::string& path) {
  constexpr int64_t kBytesMax = int64_t{1} << 31;
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kBytesMax));
  absl::StatusOr<AdapterFile> file = ParseAdapter(bytes);
  if (!file.ok()) return Annotate(file.status(), StrCat("adapter '", path, "'"));
  return file;
}

}  // namespace lightcone
