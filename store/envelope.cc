#include "store/envelope.h"

#include <algorithm>
#include <cstring>

#include "base/files.h"
#include "base/status.h"
#include "store/coding.h"

namespace lightcone {
namespace {

constexpr size_t kPrintedBytesMax = 64;

uint32_t MaskedChecksum(uint8_t format, Table table, std::string_view key, std::string_view value) {
  // The key's length is part of the sum, else bytes could move from the key's end to the value's start unnoticed.
  const std::string_view name = TableName(table);
  const uint32_t key_bytes = static_cast<uint32_t>(key.size());
  char head[1 + sizeof(key_bytes)];
  head[0] = static_cast<char>(format);
  std::memcpy(head + 1, &key_bytes, sizeof(key_bytes));
  uint32_t crc = Crc32c({head, sizeof(head)});
  crc = Crc32c(name, crc);
  crc = Crc32c(key, crc);
  crc = Crc32c(value, crc);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace

std::array<char, kEnvelopeBytes> EnvelopeOf(Table table, std::string_view key, std::string_view value) {
  std::array<char, kEnvelopeBytes> out;
  const uint32_t checksum = MaskedChecksum(kValueFormat, table, key, value);
  out[0] = static_cast<char>(kValueFormat);
  std::memcpy(out.data() + 1, &checksum, sizeof(checksum));
  return out;
}

absl::StatusOr<std::string_view> OpenEnvelope(Table table, std::string_view key, std::string_view bytes) {
  coding::Reader reader(bytes);
  uint8_t format = 0;
  uint32_t checksum = 0;
  if (!reader.Take(&format) || !reader.Take(&checksum)) {
    return DataLoss(StrCat(Place(table, key), ": damaged value: ", bytes.size(), " bytes are less than an envelope"));
  }
  if (format != kValueFormat) {
    return DataLoss(StrCat(Place(table, key), ": damaged value: format ", int{format}, "; known: ", int{kValueFormat}));
  }
  if (checksum != MaskedChecksum(format, table, key, reader.rest())) {
    return DataLoss(StrCat(Place(table, key), ": damaged value: its checksum does not match"));
  }
  return reader.rest();
}

std::string PrintableKey(std::string_view key) {
  const std::string_view shown = key.substr(0, kPrintedBytesMax);
  const bool printable =
      !shown.empty() && std::all_of(shown.begin(), shown.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  std::string out;
  if (printable) {
    out = StrCat("'", shown, "'");
  } else {
    constexpr char kDigits[] = "0123456789abcdef";
    out = "0x";
    for (const char c : shown) {
      out.push_back(kDigits[static_cast<uint8_t>(c) >> 4]);
      out.push_back(kDigits[static_cast<uint8_t>(c) & 15]);
    }
  }
  return shown.size() < key.size() ? StrCat(out, "... (", key.size(), " bytes)") : out;
}

std::string Place(Table table, std::string_view key) {
  return StrCat("table '", TableName(table), "' key ", PrintableKey(key));
}

}  // namespace lightcone
