// Images on their way into an encoder: decoding of PNG, JPEG and WebP, and resizing. No torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

// One image, height x width x channels, uint8, row major, channels last; channels is 1 (grey) or 3 (RGB).
struct Image {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

struct ImageLimits {
  int64_t bytes_max = 32 << 20;     // of the compressed file
  int64_t pixels_max = 64'000'000;  // height x width; guards against decompression bombs
};

// Decodes a PNG, JPEG or WebP file held in memory. Palettes and 16-bit depths become 8-bit; alpha is composed on white;
// a grey file gives 1 channel, others 3. INVALID_ARGUMENT when it is none of the three or corrupt or truncated (says
// which), RESOURCE_EXHAUSTED above the limits. Threads: safe.
absl::StatusOr<Image> DecodeImage(std::string_view bytes, const ImageLimits& limits = {});

// Resamples to height x width (bilinear; averaging over the footprint when shrinking) and converts the channel count
// (grey -> RGB by repetition, RGB -> grey by ITU-R BT.601 luma). REQUIRES: a valid image, positive sizes, channels 1|3.
Image ResizeImage(const Image& image, int height, int width, int channels);

// ResizeImage along one axis as a matrix, `to` x `from`, row major: for images that are no longer bytes. REQUIRES:
// positive sizes.
std::vector<float> ResizeMatrix(int from, int to);

}  // namespace lightcone
