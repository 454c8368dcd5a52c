// Any text as the manifest of a snapshot, and as its content behind a true checksum: never a path that leads out of the
// data folder, and what is accepted is written and read again as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json_depth.h"
#include "base/sealed.h"
#include "snapshot/manifest.h"

namespace {

void Check(std::string_view text) {
  const auto manifest = lightcone::DecodeSnapshotManifest(text, "fuzz");
  if (!manifest.ok()) {
    if (!absl::IsDataLoss(manifest.status()) && !absl::IsFailedPrecondition(manifest.status())) std::abort();
    return;
  }
  if (!lightcone::CheckSnapshotName(manifest->name).ok() || manifest->time_us < 0) std::abort();
  if (manifest->Bytes() > INT64_MAX) std::abort();
  for (const lightcone::SnapshotFile& file : manifest->files) {
    const std::string path = "/" + file.path + "/";
    if (file.path.empty() || file.path.size() > lightcone::kSnapshotPathBytesMax) std::abort();
    if (path.find("//") != std::string::npos || path.find("/../") != std::string::npos) std::abort();
    if (path.find("/./") != std::string::npos || path.find('\0') != std::string::npos) std::abort();
    if (manifest->File(file.path) != &file) std::abort();
  }
  const std::string written = lightcone::EncodeSnapshotManifest(*manifest);
  const auto again = lightcone::DecodeSnapshotManifest(written, "again");
  if (!again.ok() || lightcone::EncodeSnapshotManifest(*again) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(text);
  if (lightcone::JsonNestsDeeper(text, 32)) return 0;
  const auto content = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (content.is_object()) Check(lightcone::SealedText(content));
  return 0;
}
