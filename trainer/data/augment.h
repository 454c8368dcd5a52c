// Random changes of an image that keep its class, and the conversion to a network's input.
#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/dataset.h"

namespace lightcone {

// One drawn change: pixel (x, y) of the result shows the image's point centre + M ((x, y) - centre - shift), as M_xx,
// M_xy, M_yx, M_yy, shift_x, shift_y in pixels. kPhoto has whole pixels and black outside the image. kDrawing reads
// between pixels bilinearly and repeats the border.
using ImageChange = std::array<double, 6>;

// The change that AugmentImage draws from `seed`, for trainer/device_images_torch.h. Threads: safe.
ImageChange DrawChange(AugmentKind kind, int height, int width, uint64_t seed);

// Changes one image at random and writes it normalised, (pixel / 255 - mean) / stddev, as `out`[channels x height x
// width]. `in` is height x width x channels, uint8. The result depends on the arguments alone, never on threads.
// - kNone: normalisation only; `seed` is not used.
// - kPhoto: a crop of the image padded with black by 4 pixels, or an eighth of a side below 32 (torchvision's
//   RandomCrop(32, 4) and RandomCrop(64, 4)), and a mirror image half of the time.
// - kDrawing: shift up to 8 % of the side, rotation up to 12 degrees, scale 0.85 to 1.15, shear up to 0.1, resampled
//   bilinearly with the border repeated (so that dark paper and light paper both work).
// REQUIRES: normalisation has `channels` values. Threads: safe.
void AugmentImage(AugmentKind kind, const uint8_t* in, int height, int width, int channels, uint64_t seed,
                  const Normalisation& normalisation, float* out);

}  // namespace lightcone
