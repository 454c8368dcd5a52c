#include "base/utf8.h"

namespace lightcone {

std::optional<std::size_t> FirstNotUtf8(std::string_view text) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = begin + text.size();
  for (const unsigned char* p = begin; p < end;) {
    if (*p < 0x80) {
      ++p;
      continue;
    }
    const std::size_t at = static_cast<std::size_t>(p - begin);
    const int length = *p >= 0xf0 ? 4 : (*p >= 0xe0 ? 3 : 2);
    if (*p < 0xc2 || *p > 0xf4 || end - p < length) return at;
    for (int i = 1; i < length; ++i) {
      if ((p[i] & 0xc0) != 0x80) return at;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return at;  // overlong; surrogates
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return at;  // overlong; above U+10FFFF
    p += length;
  }
  return std::nullopt;
}

std::string CleanUtf8(std::string_view text) {
  std::string clean(text);
  for (std::size_t at = 0; const auto bad = FirstNotUtf8(std::string_view(clean).substr(at)); ++at) {
    at += *bad;
    clean[at] = '?';
  }
  return clean;
}

std::string HexByte(char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return {'0', 'x', kDigits[value >> 4], kDigits[value & 15]};
}

}  // namespace lightcone
