// FreeType behind a small class: one font file, glyphs rendered through a linear map.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone::internal {

// Coverage 0 .. 255 of a rendered glyph, row major, cut to its bounding box.
struct GlyphBitmap {
  int height = 0, width = 0;
  std::vector<uint8_t> coverage;
};

// x' = xx x + xy y, y' = yx x + yy y (y points up); `weight` is added to the outline's strokes, in pixels.
struct GlyphStyle {
  int size_pixels = 20;
  double xx = 1, xy = 0, yx = 0, yy = 1;
  double weight = 0;
};

// One opened font. Threads: one at a time.
class GlyphFace {
 public:
  // DATA_LOSS when FreeType cannot read the file.
  static absl::StatusOr<std::unique_ptr<GlyphFace>> Open(const std::string& path);
  virtual ~GlyphFace() = default;

  virtual bool Has(char32_t character) const = 0;
  // INTERNAL when FreeType fails; an empty bitmap for a character without ink.
  virtual absl::StatusOr<GlyphBitmap> Render(char32_t character, const GlyphStyle& style) = 0;
};

}  // namespace lightcone::internal
