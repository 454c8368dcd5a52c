// Arbitrary bytes as a .rec file, read at every fourth byte, and as an .idx file.
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "trainer/data/recordio.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto read = [&](int64_t offset, int64_t count, char* out) {
    if (offset < 0 || count < 0 || offset + count > static_cast<int64_t>(size)) std::abort();
    std::memcpy(out, data + offset, static_cast<size_t>(count));
    return absl::OkStatus();
  };
  const int64_t step = size > 4096 ? 512 : 4;
  for (int64_t offset = 0; offset < static_cast<int64_t>(size); offset += step) {
    const auto record = lightcone::ReadRecord(read, static_cast<int64_t>(size), offset, 1 << 20, "fuzz");
    if (!record.ok()) continue;
    const auto header = lightcone::ParseImageRecordHeader(*record, "fuzz");
    if (header.ok() && (header->labels.empty() || header->bytes > record->size())) std::abort();
  }
  const auto entries = lightcone::ParseRecordIndex(bytes, "fuzz");
  for (size_t i = 1; entries.ok() && i < entries->size(); ++i) {
    if ((*entries)[i - 1].key >= (*entries)[i].key) std::abort();
  }
  return 0;
}
