// The size that the header of an image file states, read without a decoder: whether a file is worth decoding.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lightcone {

struct ImageSize {
  int64_t width = 0, height = 0;
  int64_t pixels() const { return width * height; }
};

// Of a PNG, JPEG or WebP file. nullopt: it is none, is cut off, or states no size. What a decoder makes of the rest of
// the file is unknown.
std::optional<ImageSize> ReadImageSize(std::string_view bytes);

}  // namespace lightcone
