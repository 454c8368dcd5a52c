// Arbitrary bytes as a MATLAB 5 file, whole and behind a valid file header.
#include <cstdlib>
#include <string>

#include "trainer/data/mat_file.h"

namespace {

void Check(const lightcone::MatArray& array) {
  using Kind = lightcone::MatArray::Kind;
  if (array.kind == Kind::kNumbers && static_cast<int64_t>(array.numbers.size()) != array.size()) std::abort();
  if (array.kind == Kind::kCells && static_cast<int64_t>(array.items.size()) != array.size()) std::abort();
  if (array.kind == Kind::kStructs &&
      static_cast<int64_t>(array.items.size()) != array.size() * static_cast<int64_t>(array.fields.size())) {
    std::abort();
  }
  for (const lightcone::MatArray& item : array.items) Check(item);
}

void Parse(const std::string& bytes) {
  const auto variables = lightcone::ParseMat(bytes, "fuzz");
  if (!variables.ok()) return;
  for (const auto& [name, array] : *variables) Check(array);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  Parse(bytes);
  Parse(std::string(124, ' ') + std::string("\x00\x01IM", 4) + bytes);
  return 0;
}
