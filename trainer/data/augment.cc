#include "trainer/data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/dcheck.h"
#include "base/rng.h"

namespace lightcone {
namespace {

constexpr int kCropPaddingMax = 4;  // padding in pixels, for images of 32 and of 64 (the paper's crops)

// One channel's table from pixel value to normalised float.
std::array<float, 256> MakeTable(const Normalisation& normalisation, int channel) {
  std::array<float, 256> table;
  const float mean = normalisation.mean[channel], scale = 1.0f / normalisation.stddev[channel];
  for (int v = 0; v < 256; ++v) table[v] = (static_cast<float>(v) / 255.0f - mean) * scale;
  return table;
}

// Reads the image shifted by (top, left); what lies outside is black.
void Crop(const uint8_t* in, int height, int width, int channels, int top, int left, bool mirror,
          const Normalisation& normalisation, float* out) {
  for (int c = 0; c < channels; ++c) {
    const std::array<float, 256> table = MakeTable(normalisation, c);
    for (int y = 0; y < height; ++y) {
      const int from_y = y + top;
      const bool row_inside = from_y >= 0 && from_y < height;
      const uint8_t* row = in + static_cast<int64_t>(row_inside ? from_y : 0) * width * channels + c;
      float* to = out + (static_cast<int64_t>(c) * height + y) * width;
      for (int x = 0; x < width; ++x) {
        const int from_x = (mirror ? width - 1 - x : x) + left;
        const bool inside = row_inside && from_x >= 0 && from_x < width;
        to[x] = table[inside ? row[static_cast<int64_t>(from_x) * channels] : 0];
      }
    }
  }
}

ImageChange DrawWarp(int height, int width, Rng* rng) {
  const double angle = rng->Uniform(-12.0, 12.0) * 3.14159265358979323846 / 180.0;
  const double zoom = 1.0 / rng->Uniform(0.85, 1.15);
  const double shear = rng->Uniform(-0.1, 0.1);
  const double cosine = std::cos(angle) * zoom, sine = std::sin(angle) * zoom;
  ImageChange warp{cosine, cosine * shear - sine, sine, sine * shear + cosine, 0, 0};
  warp[4] = rng->Uniform(-0.08, 0.08) * width;
  warp[5] = rng->Uniform(-0.08, 0.08) * height;
  return warp;
}

// A crop from (top, left) is a shift by whole pixels; mirrored, x counts from the other side.
struct CropPlace {
  int top, left;
  bool mirror;
};

CropPlace DrawCrop(int height, int width, Rng* rng) {
  const int pad_y = std::min(kCropPaddingMax, height / 8), pad_x = std::min(kCropPaddingMax, width / 8);
  const int top = static_cast<int>(rng->Below(2 * pad_y + 1)) - pad_y;
  const int left = static_cast<int>(rng->Below(2 * pad_x + 1)) - pad_x;
  return {top, left, rng->Below(2) == 1};
}

void ApplyWarp(const ImageChange& warp, const uint8_t* in, int height, int width, int channels,
               const Normalisation& normalisation, float* out) {
  const auto& [xx, xy, yx, yy, shift_x, shift_y] = warp;
  const double centre_x = (width - 1) / 2.0, centre_y = (height - 1) / 2.0;
  const int64_t plane = static_cast<int64_t>(height) * width;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double dx = x - centre_x - shift_x, dy = y - centre_y - shift_y;
      const double sx = std::clamp(centre_x + xx * dx + xy * dy, 0.0, width - 1.0);
      const double sy = std::clamp(centre_y + yx * dx + yy * dy, 0.0, height - 1.0);
      const int x0 = static_cast<int>(sx), y0 = static_cast<int>(sy);
      const int x1 = std::min(x0 + 1, width - 1), y1 = std::min(y0 + 1, height - 1);
      const float fx = static_cast<float>(sx - x0), fy = static_cast<float>(sy - y0);
      for (int c = 0; c < channels; ++c) {
        const auto at = [&](int py, int px) {
          return static_cast<float>(in[(static_cast<int64_t>(py) * width + px) * channels + c]);
        };
        const float top = at(y0, x0) + fx * (at(y0, x1) - at(y0, x0));
        const float bottom = at(y1, x0) + fx * (at(y1, x1) - at(y1, x0));
        const float value = (top + fy * (bottom - top)) / 255.0f;
        out[c * plane + static_cast<int64_t>(y) * width + x] =
            (value - normalisation.mean[c]) / normalisation.stddev[c];
      }
    }
  }
}

}  // namespace

ImageChange DrawChange(AugmentKind kind, int height, int width, uint64_t seed) {
  Rng rng(seed);
  if (kind == AugmentKind::kDrawing) return DrawWarp(height, width, &rng);
  if (kind == AugmentKind::kNone) return {1, 0, 0, 1, 0, 0};
  const CropPlace place = DrawCrop(height, width, &rng);
  if (place.mirror) return {-1, 0, 0, 1, static_cast<double>(place.left), static_cast<double>(-place.top)};
  return {1, 0, 0, 1, static_cast<double>(-place.left), static_cast<double>(-place.top)};
}

void AugmentImage(AugmentKind kind, const uint8_t* in, int height, int width, int channels, uint64_t seed,
                  const Normalisation& normalisation, float* out) {
  LC_DCHECK(std::cmp_equal(normalisation.mean.size(), channels) &&
            std::cmp_equal(normalisation.stddev.size(), channels));
  Rng rng(seed);
  switch (kind) {
    case AugmentKind::kNone:
      Crop(in, height, width, channels, 0, 0, false, normalisation, out);
      return;
    case AugmentKind::kPhoto: {
      const CropPlace place = DrawCrop(height, width, &rng);
      Crop(in, height, width, channels, place.top, place.left, place.mirror, normalisation, out);
      return;
    }
    case AugmentKind::kDrawing:
      ApplyWarp(DrawWarp(height, width, &rng), in, height, width, channels, normalisation, out);
      return;
  }
}

}  // namespace lightcone
