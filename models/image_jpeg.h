// The JPEG part of DecodeImage: libjpeg reports errors by longjmp, so its calls live in a file of their own.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "models/image_fit.h"

namespace lightcone::internal {

// Same contract as DecodeImageFor, for bytes that begin with a JPEG marker. The size limit is checked by the caller.
absl::StatusOr<Image> DecodeJpeg(std::string_view bytes, const ImageLimits& limits, const ImageFit& fit);

}  // namespace lightcone::internal
