// A failure head's file from anywhere: parsed or refused, and what was parsed judges an item and survives a second
// round. The bytes are also tried as the header and the class means of a file whose checksums hold.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint.h"
#include "models/failure_head_file.h"

namespace {

void Try(std::string_view bytes) {
  const absl::StatusOr<lightcone::FailureHeadFile> file = lightcone::ParseFailureHead(bytes);
  if (!file.ok()) return;
  const absl::StatusOr<std::string> encoded = lightcone::EncodeFailureHead(*file);
  if (!encoded.ok()) std::abort();
  const absl::StatusOr<lightcone::FailureHeadFile> again = lightcone::ParseFailureHead(*encoded);
  if (!again.ok() || !(*again == *file)) std::abort();
  const std::vector<float> z(file->means.dimension, 0.5f);
  const std::vector<double> distances = {0.5, 1, 2};
  (void)file->head.Score(lightcone::HeadFeaturesOf({distances, 1, 1, lightcone::EvidenceOf(file->means, z), 1, 1}));
}

}  // namespace

// First two bytes: bytes of the header.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Try(bytes);
  if (size < 2) return 0;
  const size_t length = static_cast<size_t>(data[0]) * 256 + data[1];
  const std::string_view header = bytes.substr(2, length);
  lightcone::Checkpoint checkpoint;
  checkpoint.sections["failure_head"] = std::string(header);
  checkpoint.sections["class_means"] = std::string(bytes.substr(2 + header.size()));
  Try(lightcone::EncodeCheckpoint(checkpoint));
  return 0;
}
