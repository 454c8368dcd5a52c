// Arbitrary bytes as an fvecs, bvecs, npy or jsonl file of embeddings, and as a file of ids: every row read, or refused
// with a status. The first byte chooses the format.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/formats/rows.h"

namespace {

using lightcone::cli::RowFormat;

void ReadIds(const std::string& path) {
  const auto reader = lightcone::cli::OpenIds(path);
  if (!reader.ok()) return;
  for (;;) {
    lightcone::cli::Row row;
    const auto more = (*reader)->Next(&row);
    if (!more.ok() || !*more) return;
    if (!row.id.has_value()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr RowFormat kFormats[] = {RowFormat::kFvecs, RowFormat::kBvecs, RowFormat::kNpy, RowFormat::kJsonl};
  const int file = memfd_create("rows", 0);
  if (file < 0 || write(file, data + 1, size - 1) != static_cast<ssize_t>(size - 1)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (data[0] % 5 == 4) {
    ReadIds(path);
    close(file);
    return 0;
  }
  const auto reader = lightcone::cli::OpenRows(path, kFormats[data[0] % 5]);
  if (reader.ok()) {
    lightcone::cli::Row row;
    int64_t rows = 0;
    for (;;) {
      const auto more = (*reader)->Next(&row);
      if (!more.ok()) break;
      if (!*more) {
        if ((*reader)->rows() >= 0 && rows != (*reader)->rows()) std::abort();
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
