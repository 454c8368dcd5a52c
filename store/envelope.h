// The envelope of every value on disk: format version (1 byte) | masked CRC-32C (4 bytes, little endian) | value.
// The checksum covers version, table, key and value: it also detects a value under another key or in another table. It
// is masked as in LevelDB, because values may hold checksums themselves. Threads: pure functions, which allocate for
// messages only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/store.h"

namespace lightcone {

inline constexpr uint8_t kValueFormat = 1;
inline constexpr size_t kEnvelopeBytes = 5;

// The bytes that stand before `value` on disk.
std::array<char, kEnvelopeBytes> EnvelopeOf(Table table, std::string_view key, std::string_view value);

// A view of the value inside `bytes`. DATA_LOSS names table, key and damage.
absl::StatusOr<std::string_view> OpenEnvelope(Table table, std::string_view key, std::string_view bytes);

// A key for a message: in quotes when every byte is printable ASCII, else in hexadecimal; long ones are cut.
std::string PrintableKey(std::string_view key);

// "table 'meta' key 'm/format'".
std::string Place(Table table, std::string_view key);

}  // namespace lightcone
