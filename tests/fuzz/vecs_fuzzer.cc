// Arbitrary bytes as an fvecs, bvecs or npy file of embeddings: every row read, or refused with a status. The first
// byte chooses the format.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/formats/rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lightcone::cli::RowFormat;
  if (size == 0) return 0;
  constexpr RowFormat kFormats[] = {RowFormat::kFvecs, RowFormat::kBvecs, RowFormat::kNpy};
  const int file = memfd_create("rows", 0);
  if (file < 0 || write(file, data + 1, size - 1) != static_cast<ssize_t>(size - 1)) std::abort();
  const auto reader = lightcone::cli::OpenRows("/proc/self/fd/" + std::to_string(file), kFormats[data[0] % 3]);
  if (reader.ok()) {
    lightcone::cli::Row row;
    int64_t rows = 0;
    for (;;) {
      const auto more = (*reader)->Next(&row);
      if (!more.ok()) break;
      if (!*more) {
        if (rows != (*reader)->rows()) std::abort();
        break;
      }
      ++rows;
      for (const float value : row.vector) {
        if (!std::isfinite(value)) std::abort();
      }
    }
  }
  close(file);
  return 0;
}
