// An adapter's file from anywhere: parsed or refused, and what was parsed runs and survives a second round. The bytes
// are also tried as the header and the matrices of a file whose checksums hold.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "geometry/adapter.h"
#include "models/adapter_file.h"
#include "models/checkpoint.h"

namespace {

void Try(std::string_view bytes) {
  const absl::StatusOr<lightcone::AdapterFile> file = lightcone::ParseAdapter(bytes);
  if (!file.ok()) return;
  const absl::StatusOr<std::string> encoded = lightcone::EncodeAdapter(*file);
  if (!encoded.ok()) std::abort();
  const absl::StatusOr<lightcone::AdapterFile> again = lightcone::ParseAdapter(*encoded);
  if (!again.ok() || !(*again == *file)) std::abort();
  const absl::StatusOr<lightcone::Adapter> adapter = lightcone::Adapter::Make(file->spec);
  if (!adapter.ok()) std::abort();
  const std::vector<float> z(static_cast<size_t>(adapter->input_dimension()), 0.5f);
  std::vector<float> out(static_cast<size_t>(adapter->output_dimension()));
  const float uncertainty = adapter->ApplyOne(z, out);
  if (!(uncertainty >= 0 && uncertainty <= 1)) std::abort();
}

}  // namespace

// First byte: how many matrices follow the header; second and third: bytes of the header.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Try(bytes);
  if (size < 3) return 0;
  const size_t length = static_cast<size_t>(data[1]) * 256 + data[2];
  const std::string_view header = bytes.substr(3, length), rest = bytes.substr(3 + header.size());
  const char* const names[] = {"linear", "offset", "hidden", "hidden_offset", "output", "head_weights"};
  lightcone::Checkpoint checkpoint;
  checkpoint.sections["adapter"] = std::string(header);
  const size_t count = data[0] % 7, piece = count == 0 ? 0 : rest.size() / count;
  for (size_t i = 0; i < count && i < 6; ++i) {
    checkpoint.sections[names[i]] = std::string(rest.substr(i * piece, piece));
  }
  Try(lightcone::EncodeCheckpoint(checkpoint));
  return 0;
}
