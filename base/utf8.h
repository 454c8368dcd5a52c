// Threads: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lightcone {

// The place of the first byte that is not well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, at most
// U+10FFFF); nothing when all of the text is.
std::optional<std::size_t> FirstNotUtf8(std::string_view text);

// The same text with a '?' in place of every byte that no character is made of: for texts of unknown origin that must
// travel.
std::string CleanUtf8(std::string_view text);

// "0xff", for messages that name such a byte.
std::string HexByte(char byte);

inline bool IsUtf8(std::string_view text) { return !FirstNotUtf8(text).has_value(); }

}  // namespace lightcone
