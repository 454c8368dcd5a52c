#include "models/image.h"

#include <png.h>
#include <webp/decode.h>

#include <cstring>

#include "base/status.h"
#include "models/image_fit.h"
#include "models/image_jpeg.h"

namespace lightcone {
namespace {

constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";

absl::Status CheckPixels(std::string_view kind, int64_t height, int64_t width, const ImageLimits& limits) {
  if (height > 0 && width > 0 && width <= limits.pixels_max / height) return absl::OkStatus();
  return FieldError(absl::StatusCode::kResourceExhausted, StrCat(kind, " size"),
                    StrCat(width, " x ", height, " pixels"), StrCat("up to ", limits.pixels_max, " pixels"));
}

// RGBA or grey + alpha onto a white ground; `channels` counts colours without alpha.
std::vector<uint8_t> ComposeOnWhite(const std::vector<uint8_t>& pixels, int channels) {
  const size_t n = pixels.size() / (channels + 1);
  std::vector<uint8_t> out(n * channels);
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* from = pixels.data() + i * (channels + 1);
    const int alpha = from[channels];
    for (int c = 0; c < channels; ++c) {
      out[i * channels + c] = static_cast<uint8_t>((from[c] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
  }
  return out;
}

uint32_t BigEndian32(const char* p) {
  const auto* b = reinterpret_cast<const uint8_t*>(p);
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
}

// libpng's simplified reader stops at the last row and would not miss a lost end: walk the chunks up to IEND.
bool HasAllChunks(std::string_view bytes) {
  size_t at = kPngMagic.size();
  while (at <= bytes.size() && bytes.size() - at >= 12) {
    const uint32_t length = BigEndian32(bytes.data() + at);
    if (bytes.size() - at - 12 < length) return false;
    if (bytes.substr(at + 4, 4) == "IEND") return true;
    at += 12 + static_cast<size_t>(length);
  }
  return false;
}

// Frees what libpng holds on every path.
struct PngReader {
  png_image image;
  ~PngReader() { png_image_free(&image); }
};

absl::StatusOr<Image> DecodePng(std::string_view bytes, const ImageLimits& limits) {
  if (!HasAllChunks(bytes)) return InvalidArgument("truncated PNG: it ends before its IEND chunk");
  PngReader png{};
  png.image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size())) {
    return InvalidArgument(StrCat("corrupt PNG: ", png.image.message));
  }
  LC_RETURN_IF_ERROR(CheckPixels("PNG", png.image.height, png.image.width, limits));
  const bool colour = png.image.format & PNG_FORMAT_FLAG_COLOR;
  const bool alpha = png.image.format & PNG_FORMAT_FLAG_ALPHA;
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit files hold the same curve as 8-bit ones, just finer
  png.image.format = (colour ? PNG_FORMAT_FLAG_COLOR : 0) | (alpha ? PNG_FORMAT_FLAG_ALPHA : 0);
  Image out{static_cast<int>(png.image.height), static_cast<int>(png.image.width), colour ? 3 : 1, {}};
  out.pixels.resize(PNG_IMAGE_SIZE(png.image));
  if (!png_image_finish_read(&png.image, nullptr, out.pixels.data(), 0, nullptr) || PNG_IMAGE_FAILED(png.image)) {
    return InvalidArgument(StrCat("corrupt PNG: ", png.image.message));
  }
  if (alpha) out.pixels = ComposeOnWhite(out.pixels, out.channels);
  return out;
}

absl::StatusOr<Image> DecodeWebp(std::string_view bytes, const ImageLimits& limits) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  const VP8StatusCode code = WebPGetFeatures(data, bytes.size(), &features);
  if (code != VP8_STATUS_OK) {
    return InvalidArgument(StrCat(code == VP8_STATUS_NOT_ENOUGH_DATA ? "truncated" : "corrupt", " WebP header"));
  }
  if (features.has_animation) return InvalidField("image", "an animated WebP", "a WebP of one picture");
  LC_RETURN_IF_ERROR(CheckPixels("WebP", features.height, features.width, limits));
  const int stored = features.has_alpha ? 4 : 3;
  Image out{features.height, features.width, 3, {}};
  out.pixels.resize(static_cast<size_t>(features.width) * features.height * stored);
  const int stride = features.width * stored;
  const auto* done = features.has_alpha
                         ? WebPDecodeRGBAInto(data, bytes.size(), out.pixels.data(), out.pixels.size(), stride)
                         : WebPDecodeRGBInto(data, bytes.size(), out.pixels.data(), out.pixels.size(), stride);
  if (done == nullptr) return InvalidArgument("corrupt or truncated WebP");
  if (features.has_alpha) out.pixels = ComposeOnWhite(out.pixels, 3);
  return out;
}

}  // namespace

absl::StatusOr<Image> DecodeImage(std::string_view bytes, const ImageLimits& limits) {
  return DecodeImageFor(bytes, limits, {});
}

absl::StatusOr<Image> DecodeImageFor(std::string_view bytes, const ImageLimits& limits, const ImageFit& fit) {
  if (static_cast<int64_t>(bytes.size()) > limits.bytes_max) {
    return FieldError(absl::StatusCode::kResourceExhausted, "image", StrCat(bytes.size(), " bytes"),
                      StrCat("up to ", limits.bytes_max, " bytes"));
  }
  if (bytes.substr(0, 8) == kPngMagic) return DecodePng(bytes, limits);
  if (bytes.substr(0, 3) == "\xff\xd8\xff") return internal::DecodeJpeg(bytes, limits, fit);
  if (bytes.size() >= 12 && bytes.substr(0, 4) == "RIFF" && bytes.substr(8, 4) == "WEBP") {
    return DecodeWebp(bytes, limits);
  }
  return InvalidField("image", bytes.empty() ? "empty" : StrCat(bytes.size(), " bytes of an unknown format"),
                      "a PNG, JPEG or WebP file");
}

}  // namespace lightcone
