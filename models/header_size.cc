#include "models/header_size.h"

#include <cstddef>

namespace lightcone {
namespace {

constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";

// Reads numbers of a few bytes; past the end every byte is 0.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  int64_t At(size_t at) const { return at < bytes_.size() ? static_cast<uint8_t>(bytes_[at]) : 0; }
  int64_t BigEndian16(size_t at) const { return At(at) << 8 | At(at + 1); }
  int64_t BigEndian32(size_t at) const { return BigEndian16(at) << 16 | BigEndian16(at + 2); }
  int64_t LittleEndian16(size_t at) const { return At(at) | At(at + 1) << 8; }
  int64_t LittleEndian24(size_t at) const { return LittleEndian16(at) | At(at + 2) << 16; }
  bool Has(size_t bytes) const { return bytes_.size() >= bytes; }
  bool Says(size_t at, std::string_view text) const {
    return at < bytes_.size() && bytes_.substr(at).starts_with(text);
  }

 private:
  const std::string_view bytes_;
};

std::optional<ImageSize> Valid(int64_t width, int64_t height) {
  if (width <= 0 || height <= 0) return std::nullopt;
  return ImageSize{width, height};
}

std::optional<ImageSize> OfPng(const Bytes& in) {
  if (!in.Has(24) || !in.Says(12, "IHDR")) return std::nullopt;
  return Valid(in.BigEndian32(16), in.BigEndian32(20));
}

// The first frame's header is what libjpeg goes by.
std::optional<ImageSize> OfJpeg(const Bytes& in) {
  for (size_t at = 2; in.Has(at + 2);) {
    if (in.At(at) != 0xff) {  // libjpeg looks for the next marker, too.
      ++at;
      continue;
    }
    const int64_t marker = in.At(at + 1);
    if (marker == 0xff) {  // a byte that fills
      ++at;
      continue;
    }
    const bool alone = marker == 0 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (alone) {
      at += 2;
      continue;
    }
    if (marker == 0xd9 || marker == 0xda) return std::nullopt;  // pixels or the end, and no size yet
    const bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) {
      if (!in.Has(at + 9)) return std::nullopt;
      return Valid(in.BigEndian16(at + 7), in.BigEndian16(at + 5));
    }
    at += 2 + static_cast<size_t>(in.BigEndian16(at + 2));
  }
  return std::nullopt;
}

std::optional<ImageSize> OfWebp(const Bytes& in) {
  constexpr int64_t side = 0x3fff;  // bits of a side
  if (in.Says(12, "VP8X") && in.Has(30)) return Valid(in.LittleEndian24(24) + 1, in.LittleEndian24(27) + 1);
  if (in.Says(12, "VP8L") && in.Has(25) && in.At(20) == 0x2f) {
    const int64_t packed = in.LittleEndian16(21) | in.LittleEndian16(23) << 16;
    return Valid((packed & side) + 1, (packed >> 14 & side) + 1);
  }
  if (in.Says(12, "VP8 ") && in.Has(30) && in.Says(23, "\x9d\x01\x2a")) {
    return Valid(in.LittleEndian16(26) & side, in.LittleEndian16(28) & side);
  }
  return std::nullopt;
}

}  // namespace

std::optional<ImageSize> ReadImageSize(std::string_view bytes) {
  const Bytes in(bytes);
  if (in.Says(0, kPngMagic)) return OfPng(in);
  if (in.Says(0, "\xff\xd8\xff")) return OfJpeg(in);
  if (in.Says(0, "RIFF") && in.Says(8, "WEBP")) return OfWebp(in);
  return std::nullopt;
}

}  // namespace lightcone
