#include "bench/descriptors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>

#include "base/status.h"

namespace lightcone::bench {
namespace {

constexpr int kGrid = 16;  // samples of a square a side
constexpr int kCells = 4;  // a side
constexpr int kDirections = 8;
constexpr int kSideMin = 12;       // pixels
constexpr float kContrastMin = 4;  // grey levels, the mean gradient
constexpr int kTriesMax = 100;     // for one descriptor

using Descriptor = std::array<float, kDescriptorDimension>;

struct Square {
  float x = 0, y = 0, side = 0;  // pixels
};

std::vector<float> Grey(const ImageSet& images, const std::vector<uint8_t>& pixels) {
  std::vector<float> grey(static_cast<size_t>(images.height) * images.width);
  for (size_t i = 0; i < grey.size(); ++i) {
    float sum = 0;
    for (int c = 0; c < images.channels; ++c) sum += pixels[i * images.channels + c];
    grey[i] = sum / static_cast<float>(images.channels);
  }
  return grey;
}

// Between the four pixels around; beyond the edge as at it.
float At(const std::vector<float>& grey, int height, int width, float y, float x) {
  y = std::clamp(y, 0.0f, static_cast<float>(height - 1));
  x = std::clamp(x, 0.0f, static_cast<float>(width - 1));
  const int top = static_cast<int>(y), left = static_cast<int>(x);
  const int bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
  const float down = y - static_cast<float>(top), along = x - static_cast<float>(left);
  const auto pixel = [&](int row, int column) { return grey[static_cast<size_t>(row) * width + column]; };
  return (1 - down) * ((1 - along) * pixel(top, left) + along * pixel(top, right)) +
         down * ((1 - along) * pixel(bottom, left) + along * pixel(bottom, right));
}

// Shares a gradient among the cells and directions on both sides of it in each of the three (Lowe, 6.1).
void Spread(float row, float column, float direction, float weight, Descriptor* to) {
  const float at[] = {row, column, direction};
  float floors[3];
  for (int i = 0; i < 3; ++i) floors[i] = std::floor(at[i]);
  for (int corner = 0; corner < 8; ++corner) {
    int place[3];
    float share = weight;
    for (int i = 0; i < 3; ++i) {
      const bool upper = (corner >> i & 1) != 0;
      place[i] = static_cast<int>(floors[i]) + upper;
      share *= upper ? at[i] - floors[i] : 1 - (at[i] - floors[i]);
    }
    if (place[0] < 0 || place[0] >= kCells || place[1] < 0 || place[1] >= kCells) continue;
    const int turn = (place[2] + kDirections) % kDirections;
    (*to)[static_cast<size_t>((place[0] * kCells + place[1]) * kDirections + turn)] += share;
  }
}

void Normalise(Descriptor* d) {
  float norm = 0;
  for (const float x : *d) norm += x * x;
  for (float& x : *d) x /= std::sqrt(norm);
}

// False where there is hardly any contrast.
bool Describe(const std::vector<float>& grey, const ImageSet& images, const Square& square, Descriptor* out) {
  const float step = square.side / kGrid;
  const auto sample = [&](int row, int column) {
    return At(grey, images.height, images.width, square.y + (static_cast<float>(row) + 0.5f) * step,
              square.x + (static_cast<float>(column) + 0.5f) * step);
  };
  out->fill(0);
  float contrast = 0;
  for (int row = 0; row < kGrid; ++row) {
    for (int column = 0; column < kGrid; ++column) {
      const float dy = sample(row + 1, column) - sample(row - 1, column);
      const float dx = sample(row, column + 1) - sample(row, column - 1);
      const float length = std::hypot(dx, dy);
      contrast += length;
      // A Gaussian of half the square's width.
      const float u = (static_cast<float>(row) + 0.5f) / kGrid - 0.5f,
                  v = (static_cast<float>(column) + 0.5f) / kGrid - 0.5f;
      const float weight = length * std::exp(-(u * u + v * v) / (2 * 0.5f * 0.5f));
      const float turns = std::atan2(dy, dx) / (2 * std::numbers::pi_v<float>);
      Spread((u + 0.5f) * kCells - 0.5f, (v + 0.5f) * kCells - 0.5f, (turns < 0 ? turns + 1 : turns) * kDirections,
             weight, out);
    }
  }
  if (contrast < kContrastMin * kGrid * kGrid) return false;
  Normalise(out);
  for (float& x : *out) x = std::min(x, 0.2f);  // against the glare of a few large gradients
  Normalise(out);
  for (float& x : *out) x = std::min(255.0f, std::round(512 * x));
  return true;
}

}  // namespace

absl::StatusOr<std::vector<float>> SiftDescriptors(const ImageSet& images, int64_t count, uint64_t seed) {
  const int side_max = std::min(images.height, images.width);
  if (side_max < kSideMin || images.size() == 0) {
    return InvalidField("images", StrCat(images.size(), " of ", images.height, " x ", images.width),
                        StrCat("at least one, of ", kSideMin, " x ", kSideMin, " pixels"));
  }
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> unit(0, 1);
  std::vector<uint8_t> pixels(static_cast<size_t>(images.bytes_per_image()));
  std::vector<float> rows;
  rows.reserve(static_cast<size_t>(count) * kDescriptorDimension);
  int64_t image = 0;
  int tries = 0;
  for (int64_t made = 0; made < count; image = (image + 1) % images.size()) {
    LC_RETURN_IF_ERROR(images.Read(image, pixels.data()));
    Square square;
    square.side = kSideMin + unit(random) * static_cast<float>(side_max - kSideMin);
    square.y = unit(random) * (static_cast<float>(images.height) - square.side);
    square.x = unit(random) * (static_cast<float>(images.width) - square.side);
    Descriptor descriptor;
    if (Describe(Grey(images, pixels), images, square, &descriptor)) {
      rows.insert(rows.end(), descriptor.begin(), descriptor.end());
      ++made;
      tries = 0;
    } else if (++tries > kTriesMax) {
      return InvalidField("images", StrCat("no contrast in ", kTriesMax, " squares"), "photographs or drawings");
    }
  }
  return rows;
}

}  // namespace lightcone::bench
