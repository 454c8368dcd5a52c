// The manifest of a model from elsewhere, as bytes of the wire: never a crash, and what is accepted is a sound space.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "nlohmann/json.hpp"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/external_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!server::CheckPayload(bytes, 4 << 20, "manifest_json").ok()) return 0;
  const auto json = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine}) {
    const auto manifest = server::ReadExternalManifest(json, metric);
    if (manifest.ok() && !manifest->space.Validate().ok()) abort();
  }
  return 0;
}
