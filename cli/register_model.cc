#include "cli/register_model.h"

#include "base/files.h"
#include "base/status.h"
#include "models/manifest.h"

namespace lightcone::cli {

absl::Status SetModelFolder(const std::string& folder, const std::string& encoder, v1::RegisterRequest* request) {
  LC_ASSIGN_OR_RETURN(*request->mutable_manifest_json(), ReadFile(folder + "/manifest.json", 16 << 20));
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  LC_ASSIGN_OR_RETURN(*request->mutable_encoder(),
                      ReadFile(encoder.empty() ? StrCat(folder, "/", manifest.encoder_file) : encoder));
  return absl::OkStatus();
}

}  // namespace lightcone::cli
