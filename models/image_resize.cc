#include <algorithm>
#include <cmath>

#include "base/dcheck.h"
#include "models/image.h"

namespace lightcone {
namespace {

// One output pixel along an axis is the weighted sum of source pixels first .. first + weights.size() - 1.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

// Shrinking: the share of each source pixel in the footprint of the output pixel. Enlarging: linear interpolation
// between pixel centres, with the border repeated.
std::vector<Taps> AxisTaps(int from, int to) {
  std::vector<Taps> taps(static_cast<size_t>(to));
  const double scale = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    if (scale > 1.0) {
      const double low = i * scale, high = std::min<double>(low + scale, from);
      const int first = static_cast<int>(low);
      const int last = std::min(from - 1, std::max(first, static_cast<int>(std::ceil(high)) - 1));
      taps[i].first = first;
      for (int s = first; s <= last; ++s) {
        taps[i].weights.push_back(
            static_cast<float>((std::min<double>(high, s + 1) - std::max<double>(low, s)) / scale));
      }
    } else {
      const double centre = std::clamp((i + 0.5) * scale - 0.5, 0.0, from - 1.0);
      const int first = std::min(static_cast<int>(centre), std::max(0, from - 2));
      const float share = static_cast<float>(centre - first);
      taps[i].first = first;
      taps[i].weights.push_back(1 - share);
      if (from > 1) taps[i].weights.push_back(share);
    }
  }
  return taps;
}

// REQUIRES: another number of channels.
std::vector<uint8_t> ToChannels(const Image& image, int channels) {
  const size_t n = static_cast<size_t>(image.height) * image.width;
  std::vector<uint8_t> out(n * channels);
  for (size_t i = 0; i < n; ++i) {
    if (channels == 3) {
      out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = image.pixels[i];
    } else {
      const uint8_t* rgb = image.pixels.data() + 3 * i;
      out[i] = static_cast<uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);  // BT.601 luma
    }
  }
  return out;
}

}  // namespace

std::vector<float> ResizeMatrix(int from, int to) {
  LC_DCHECK(from > 0 && to > 0);
  std::vector<float> matrix(static_cast<size_t>(to) * static_cast<size_t>(from), 0.0f);
  const std::vector<Taps> rows = AxisTaps(from, to);
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy(rows[i].weights.begin(), rows[i].weights.end(),
              matrix.begin() + static_cast<std::ptrdiff_t>(i) * from + rows[i].first);
  return matrix;
}

Image ResizeImage(const Image& image, int height, int width, int channels) {
  LC_DCHECK(height > 0 && width > 0 && (channels == 1 || channels == 3));
  Image out{height, width, channels, {}};
  std::vector<uint8_t> converted;
  if (image.channels != channels) converted = ToChannels(image, channels);
  const std::vector<uint8_t>& source = image.channels == channels ? image.pixels : converted;
  if (image.height == height && image.width == width) {
    out.pixels = source;
    return out;
  }
  const std::vector<Taps> columns = AxisTaps(image.width, width), rows = AxisTaps(image.height, height);
  std::vector<float> narrow(static_cast<size_t>(image.height) * width * channels);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < width; ++x) {
      const Taps& taps = columns[x];
      for (int c = 0; c < channels; ++c) {
        const uint8_t* from = source.data() + (static_cast<size_t>(y) * image.width + taps.first) * channels + c;
        float sum = 0;
        for (size_t t = 0; t < taps.weights.size(); ++t) sum += taps.weights[t] * from[t * channels];
        narrow[(static_cast<size_t>(y) * width + x) * channels + c] = sum;
      }
    }
  }
  const size_t stride = static_cast<size_t>(width) * channels;
  out.pixels.resize(stride * height);
  std::vector<float> row(stride);
  for (int y = 0; y < height; ++y) {
    std::fill(row.begin(), row.end(), 0.0f);
    for (size_t t = 0; t < rows[y].weights.size(); ++t) {
      const float* from = narrow.data() + (rows[y].first + t) * stride;
      for (size_t i = 0; i < stride; ++i) row[i] += rows[y].weights[t] * from[i];
    }
    for (size_t i = 0; i < stride; ++i) {
      out.pixels[y * stride + i] = static_cast<uint8_t>(std::clamp(row[i] + 0.5f, 0.0f, 255.0f));
    }
  }
  return out;
}

}  // namespace lightcone
