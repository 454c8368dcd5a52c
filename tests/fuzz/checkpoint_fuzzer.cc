// A checkpoint from anywhere: parsed or refused, never read past its end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "models/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<lightcone::Checkpoint> checkpoint = lightcone::ParseCheckpoint(bytes);
  if (checkpoint.ok()) {
    const absl::StatusOr<lightcone::Checkpoint> again =
        lightcone::ParseCheckpoint(lightcone::EncodeCheckpoint(*checkpoint));
    if (!again.ok() || again->sections != checkpoint->sections) std::abort();
  }
  return 0;
}
