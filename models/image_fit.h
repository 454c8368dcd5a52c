// Decoding of an image that is resized at once: a large one need not be decoded in full. Threads: safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "models/image.h"

namespace lightcone {

// What an image is resized to once it is decoded; 0: it is not.
struct ImageFit {
  int height = 0, width = 0;
};

// DecodeImage, where a much larger JPEG is halved while it is decoded, up to three times. Each side stays at least
// twice as long as wanted, so that the resized image is nearly the same. Limits are about the size that the file
// states.
absl::StatusOr<Image> DecodeImageFor(std::string_view bytes, const ImageLimits& limits, const ImageFit& fit);

}  // namespace lightcone
