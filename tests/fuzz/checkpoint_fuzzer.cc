// A checkpoint from anywhere: parsed or refused, never read past its end. The bytes are also tried as the header's rows
// with valid checksums around them, so that the checks behind those are reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/files.h"
#include "models/checkpoint.h"

namespace {

void Try(std::string_view bytes) {
  const absl::StatusOr<lightcone::Checkpoint> checkpoint = lightcone::ParseCheckpoint(bytes);
  if (!checkpoint.ok()) return;
  const absl::StatusOr<lightcone::Checkpoint> again =
      lightcone::ParseCheckpoint(lightcone::EncodeCheckpoint(*checkpoint));
  if (!again.ok() || again->sections != checkpoint->sections) std::abort();
}

void Append(std::string& out, uint32_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof(value)); }

}  // namespace

// First byte: how many rows the header has (format: models/checkpoint.cc); second byte: how many bytes they are.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Try(bytes);
  if (size < 2) return 0;
  const std::string_view rows = bytes.substr(2, data[1]), contents = bytes.substr(2 + rows.size());
  std::string wrapped = "LCCKPT\r\n";
  Append(wrapped, lightcone::Checkpoint::kFormat);
  Append(wrapped, data[0] % 4);
  wrapped += rows;
  Append(wrapped, lightcone::Crc32c(wrapped));
  Try(wrapped + std::string(contents));
  // Sections whose own checksums hold, too: the contents cut into pieces, with names that the input chooses.
  lightcone::Checkpoint checkpoint;
  for (size_t at = 0, piece = 0; at < contents.size(); at += 7, ++piece) {
    const size_t length = static_cast<uint8_t>(contents[at]) % 8;
    checkpoint.sections[std::string(contents.substr(at, length))] = std::string(contents.substr(at, 7));
    if (piece > 1000) break;
  }
  const std::string whole = lightcone::EncodeCheckpoint(checkpoint);
  const absl::StatusOr<lightcone::Checkpoint> read = lightcone::ParseCheckpoint(whole);
  if (checkpoint.sections.size() <= 1024 && (!read.ok() || read->sections != checkpoint.sections)) std::abort();
  Try(std::string_view(whole).substr(0, whole.size() - data[1] % (whole.size() + 1)));
  return 0;
}
