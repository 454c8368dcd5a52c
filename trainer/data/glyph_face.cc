#include "trainer/data/glyph_face.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/status.h"

namespace lightcone::internal {
namespace {

FT_Fixed Fixed(double value) { return std::lround(value * 65536.0); }

class FreeTypeFace : public GlyphFace {
 public:
  explicit FreeTypeFace(std::string path) : path_(std::move(path)) {}
  ~FreeTypeFace() override {
    if (face_ != nullptr) FT_Done_Face(face_);
    if (library_ != nullptr) FT_Done_FreeType(library_);
  }

  absl::Status Init() {
    if (FT_Init_FreeType(&library_) != 0) return Internal("FreeType does not start");
    if (FT_New_Face(library_, path_.c_str(), 0, &face_) != 0) {
      face_ = nullptr;
      return DataLoss(StrCat(path_, ": FreeType cannot read this font"));
    }
    return absl::OkStatus();
  }

  bool Has(char32_t character) const override { return FT_Get_Char_Index(face_, character) != 0; }

  absl::StatusOr<GlyphBitmap> Render(char32_t character, const GlyphStyle& style) override {
    FT_Matrix matrix{Fixed(style.xx), Fixed(style.xy), Fixed(style.yx), Fixed(style.yy)};
    FT_GlyphSlot slot = face_->glyph;
    // Hinting would snap strokes to the pixel grid before the map turns them.
    bool ok = FT_Set_Pixel_Sizes(face_, 0, static_cast<FT_UInt>(style.size_pixels)) == 0 &&
              FT_Load_Char(face_, character, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) == 0 &&
              slot->format == FT_GLYPH_FORMAT_OUTLINE;
    if (ok && style.weight != 0) ok = FT_Outline_Embolden(&slot->outline, std::lround(style.weight * 64)) == 0;
    if (ok) FT_Outline_Transform(&slot->outline, &matrix);
    ok = ok && FT_Render_Glyph(slot, FT_RENDER_MODE_NORMAL) == 0;
    if (!ok) return Internal(StrCat(path_, ": FreeType cannot draw character ", static_cast<uint32_t>(character)));
    const FT_Bitmap& bitmap = slot->bitmap;
    GlyphBitmap out{static_cast<int>(bitmap.rows), static_cast<int>(bitmap.width), {}};
    out.coverage.resize(static_cast<size_t>(out.height) * out.width);
    for (int y = 0; y < out.height; ++y) {
      std::memcpy(out.coverage.data() + static_cast<size_t>(y) * out.width,
                  bitmap.buffer + static_cast<ptrdiff_t>(y) * bitmap.pitch, static_cast<size_t>(out.width));
    }
    return out;
  }

 private:
  const std::string path_;
  FT_Library library_ = nullptr;
  FT_Face face_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GlyphFace>> GlyphFace::Open(const std::string& path) {
  auto face = std::make_unique<FreeTypeFace>(path);
  LC_RETURN_IF_ERROR(face->Init());
  return std::unique_ptr<GlyphFace>(std::move(face));
}

}  // namespace lightcone::internal
