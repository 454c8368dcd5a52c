#include "server/http/picture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr uint32_t kSideMax = 4'096;
constexpr size_t kHeaderBytes = 54;

void PutLittle(std::string* out, size_t at, uint32_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) (*out)[at + i] = static_cast<char>(value >> (8 * i));
}

// A Windows bitmap: 24 bits a pixel, rows from the bottom, each of a multiple of four bytes.
std::string Bitmap(const TensorInput& tensor) {
  const size_t channels = tensor.shape[0], height = tensor.shape[1], width = tensor.shape[2];
  float low = INFINITY, high = -INFINITY;
  for (const float x : tensor.values) {
    if (!std::isfinite(x)) continue;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  const size_t row_bytes = (width * 3 + 3) / 4 * 4;
  std::string out(kHeaderBytes + row_bytes * height, '\0');
  out[0] = 'B', out[1] = 'M';
  PutLittle(&out, 2, static_cast<uint32_t>(out.size()), 4);
  PutLittle(&out, 10, kHeaderBytes, 4);
  PutLittle(&out, 14, 40, 4);
  PutLittle(&out, 18, static_cast<uint32_t>(width), 4);
  PutLittle(&out, 22, static_cast<uint32_t>(height), 4);
  PutLittle(&out, 26, 1, 2);
  PutLittle(&out, 28, 24, 2);
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        const size_t channel = channels == 1 ? 0 : 2 - c;  // blue comes first
        const float value = tensor.values[(channel * height + y) * width + x];
        const float share = std::isfinite(value) && high > low ? (value - low) / (high - low) : 0.0f;
        out[kHeaderBytes + (height - 1 - y) * row_bytes + 3 * x + c] =
            static_cast<char>(static_cast<uint8_t>(std::clamp(share, 0.0f, 1.0f) * 255 + 0.5f));
      }
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<Picture> PictureOf(const RawInput& input) {
  if (const auto* file = std::get_if<std::string>(&input)) {
    const auto starts = [&](std::string_view magic, size_t at = 0) {
      return std::string_view(*file).substr(std::min(at, file->size()), magic.size()) == magic;
    };
    if (starts("\x89PNG")) return Picture{"image/png", *file};
    if (starts("\xff\xd8\xff")) return Picture{"image/jpeg", *file};
    if (starts("RIFF") && starts("WEBP", 8)) return Picture{"image/webp", *file};
    return FailedPrecondition("the stored input is no PNG, JPEG or WebP file");
  }
  if (std::holds_alternative<TextInput>(input)) return FailedPrecondition("the stored input is a text, no picture");
  const auto& tensor = std::get<TensorInput>(input);
  const bool shown = tensor.shape.size() == 3 && (tensor.shape[0] == 1 || tensor.shape[0] == 3) &&
                     tensor.shape[1] >= 1 && tensor.shape[1] <= kSideMax && tensor.shape[2] >= 1 &&
                     tensor.shape[2] <= kSideMax &&
                     tensor.values.size() == size_t{tensor.shape[0]} * tensor.shape[1] * tensor.shape[2];
  if (!shown) return FailedPrecondition("the stored input is a tensor that is no picture: not 1 or 3 x height x width");
  return Picture{"image/bmp", Bitmap(tensor)};
}

}  // namespace lightcone::server
