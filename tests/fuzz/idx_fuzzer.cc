// Arbitrary bytes as the idx files of the MNIST family.
#include <cstdlib>
#include <string_view>

#include "trainer/data/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto images = lightcone::ParseIdxImages(bytes, "fuzz");
  if (images.ok() && images->pixels.size() + 16 != size) std::abort();
  const auto labels = lightcone::ParseIdxLabels(bytes, "fuzz");
  if (labels.ok() && labels->size() + 8 != size) std::abort();
  return 0;
}
