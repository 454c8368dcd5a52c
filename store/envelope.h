// The envelope of every value on disk: format version (1 byte) | masked CRC-32C (4 bytes, little endian) | value.
// The checksum covers version, table, key and value, so that a value that turns up under another key or in another
// table is caught as well as a flipped bit. It is masked (as LevelDB does) because values may hold checksums
// themselves. Thread safe; no function allocates except for messages.
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

// The value inside `bytes` (a view into them). DATA_LOSS names table and key and what was wrong.
absl::StatusOr<std::string_view> OpenEnvelope(Table table, std::string_view key, std::string_view bytes);

// A key for a message: in quotes when every byte is printable ASCII, else in hexadecimal; long ones are cut.
std::string PrintableKey(std::string_view key);

// "table 'meta' key 'm/format'".
std::string Place(Table table, std::string_view key);

}  // namespace lightcone
