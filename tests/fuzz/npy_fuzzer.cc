// Arbitrary bytes as an .npy file: parsed and converted, or refused with a status.
#include <cstdlib>
#include <string>

#include "base/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto array = lightcone::ParseNpy(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!array.ok()) return 0;
  (void)lightcone::NpyIntegers(*array, "fuzz");
  (void)lightcone::NpyFloats(*array, "fuzz");
  // What was accepted survives a round trip.
  const auto again = lightcone::ParseNpy(lightcone::EncodeNpy(array->type, array->shape, array->data), "fuzz");
  if (!again.ok() || again->data != array->data || again->shape != array->shape) std::abort();
  return 0;
}
