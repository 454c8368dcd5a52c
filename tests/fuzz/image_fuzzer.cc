// Arbitrary bytes as a PNG, JPEG or WebP file: decoded and resized, or refused with a status.
#include <cstdlib>
#include <string_view>

#include "models/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lightcone::ImageLimits limits;
  limits.pixels_max = 1 << 18;
  const auto image = lightcone::DecodeImage({reinterpret_cast<const char*>(data), size}, limits);
  if (!image.ok()) return 0;
  const size_t expected = static_cast<size_t>(image->height) * image->width * image->channels;
  if (image->pixels.size() != expected || (image->channels != 1 && image->channels != 3)) std::abort();
  const lightcone::Image small = lightcone::ResizeImage(*image, 28, 32, 4 - image->channels);
  if (small.pixels.size() != static_cast<size_t>(28 * 32 * small.channels)) std::abort();
  return 0;
}
