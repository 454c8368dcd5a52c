// Arbitrary bytes as a CIFAR-100 binary file. Rows have 3,074 bytes, which a fuzzer seldom hits: the input is repeated
// to a whole number of rows, too.
#include <cstdlib>
#include <string>

#include "trainer/data/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)lightcone::ParseCifar100(bytes, "fuzz");
  if (bytes.empty()) return 0;
  const size_t rows = 1 + size % 3;
  while (bytes.size() < rows * 3074) bytes += bytes;
  bytes.resize(rows * 3074);
  const auto images = lightcone::ParseCifar100(bytes, "fuzz");
  if (images.ok() && images->pixels.size() != rows * 3072) std::abort();
  return 0;
}
