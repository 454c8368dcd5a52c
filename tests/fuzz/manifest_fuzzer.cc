// manifest.json from anywhere: parsed or refused; what was parsed must survive a second round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<lightcone::Manifest> manifest =
      lightcone::ParseManifest({reinterpret_cast<const char*>(data), size});
  if (!manifest.ok()) return 0;
  const std::string text = lightcone::ToJson(*manifest);
  const absl::StatusOr<lightcone::Manifest> again = lightcone::ParseManifest(text);
  if (!again.ok() || lightcone::ToJson(*again) != text) std::abort();
  return 0;
}
