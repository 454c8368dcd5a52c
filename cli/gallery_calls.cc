#include "cli/gallery_calls.h"

#include "absl/strings/ascii.h"
#include "base/status.h"

namespace lightcone::cli {

absl::Status CreateGallery(client::Client& client, const std::string& collection, const std::string& metric,
                           double curvature) {
  v1::CreateRequest request;
  request.set_name(collection);
  v1::Geometry geometry = v1::GEOMETRY_UNSPECIFIED;
  if (!v1::Geometry_Parse(absl::AsciiStrToUpper(ToAbsl("geometry_" + metric)), &geometry)) {
    return InvalidField("metric", metric, "lorentz, cosine, inner_product, euclidean");
  }
  request.set_geometry(geometry);
  if (geometry == v1::GEOMETRY_LORENTZ) request.set_curvature(curvature);
  return client.CreateCollection(request).status();
}

absl::Status ActivateModel(client::Client& client, const std::string& collection, uint32_t generation,
                           const std::string& force_reason) {
  v1::ActivateRequest request;
  request.set_collection(collection);
  request.set_generation(generation);
  request.set_force(!force_reason.empty());
  request.set_reason(force_reason);
  return client.ActivateGeneration(request).status();
}

}  // namespace lightcone::cli
