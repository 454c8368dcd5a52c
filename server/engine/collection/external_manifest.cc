#include "server/engine/collection/external_manifest.h"

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {
namespace {

constexpr size_t kModelBytesMax = 512;

// Absent and `required` false: `*out` stays.
absl::Status ReadNumber(const nlohmann::json& json, const char* name, bool required, double* out) {
  const auto found = json.find(name);
  const std::string field = StrCat("manifest.", name);
  if (found == json.end()) return required ? InvalidField(field, "missing", "a number") : absl::OkStatus();
  if (!found->is_number()) return InvalidField(field, found->type_name(), "a number");
  *out = found->get<double>();
  return absl::OkStatus();
}

// Absent: `*out` stays.
absl::Status ReadName(const nlohmann::json& json, const char* name, std::string* out) {
  const auto found = json.find(name);
  if (found == json.end()) return absl::OkStatus();
  const std::string field = StrCat("manifest.", name);
  if (!found->is_string()) return InvalidField(field, found->type_name(), "a text");
  *out = found->get<std::string>();
  if (out->size() <= kModelBytesMax) return absl::OkStatus();
  return InvalidField(field, StrCat(out->size(), " bytes long"), StrCat("at most ", kModelBytesMax));
}

}  // namespace

absl::StatusOr<ExternalManifest> ReadExternalManifest(const nlohmann::json& json, Metric collection_metric) {
  ExternalManifest out;
  Space& space = out.space;
  space.metric = collection_metric;
  if (const auto metric = json.find("metric"); metric != json.end()) {
    if (!metric->is_string()) return InvalidField("manifest.metric", metric->type_name(), "the name of a metric");
    LC_ASSIGN_OR_RETURN(space.metric, ParseMetric(metric->get_ref<const std::string&>()));
  }
  double dimension = 0;
  LC_RETURN_IF_ERROR(ReadNumber(json, "dimension", true, &dimension));
  if (!(dimension >= 1 && dimension <= kDimensionMax) || dimension != static_cast<int>(dimension)) {
    return InvalidField("manifest.dimension", StrCat(dimension), StrCat("a whole number, 1 .. ", kDimensionMax));
  }
  space.dimension = static_cast<int>(dimension);
  const bool lorentz = space.metric == Metric::kLorentz;
  LC_RETURN_IF_ERROR(ReadNumber(json, "curvature", lorentz, &space.curvature));
  LC_RETURN_IF_ERROR(ReadNumber(json, "clip_radius", lorentz, &space.clip_radius));
  if (!lorentz) space.curvature = space.clip_radius = 1.0;  // not used
  if (const absl::Status valid = space.Validate(); !valid.ok()) return Annotate(valid, "manifest");
  double prefix = 0;
  LC_RETURN_IF_ERROR(ReadNumber(json, "compatible_prefix", false, &prefix));
  if (prefix != 0 && (!(prefix >= 2 && prefix <= dimension) || prefix != static_cast<int>(prefix))) {
    return InvalidField("manifest.compatible_prefix", StrCat(prefix), StrCat("0, or 2 .. ", space.dimension));
  }
  out.compatible_prefix = static_cast<int>(prefix);
  out.method = "external";
  if (const auto m = json.find("method"); m != json.end() && m->is_string()) out.method = m->get<std::string>();
  if (const auto endpoint = json.find("endpoint"); endpoint != json.end()) {
    LC_ASSIGN_OR_RETURN(out.endpoint, ReadEndpoint(*endpoint));
    out.model = out.endpoint->model;
  }
  LC_RETURN_IF_ERROR(ReadName(json, "model", &out.model));
  LC_RETURN_IF_ERROR(ReadName(json, "revision", &out.revision));
  if (!out.revision.empty() && out.model.empty()) {
    return InvalidField("manifest.revision", out.revision, "left out where there is no model");
  }
  return out;
}

}  // namespace lightcone::server
