#include "trainer/data/glyphs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "absl/strings/str_split.h"
#include "base/rng.h"
#include "base/status.h"
#include "trainer/data/glyph_classes.h"
#include "trainer/data/glyph_face.h"
#include "trainer/data/raw.h"

namespace lightcone {
namespace {

using internal::GlyphBitmap;
using internal::GlyphFace;
using internal::GlyphStyle;

constexpr int kSide = 28;
constexpr int kFontsMin = 3;

// What Debian's fonts-dejavu-core, fonts-liberation and fonts-freefont-ttf install.
constexpr std::string_view kFonts =
    "DejaVuSans DejaVuSans-Bold DejaVuSansMono DejaVuSansMono-Bold DejaVuSerif DejaVuSerif-Bold FreeMono "
    "FreeMonoBold FreeMonoBoldOblique FreeMonoOblique FreeSans FreeSansBold FreeSansBoldOblique "
    "FreeSansOblique FreeSerif FreeSerifBold FreeSerifBoldItalic FreeSerifItalic LiberationMono-Bold "
    "LiberationMono-BoldItalic LiberationMono-Italic LiberationMono-Regular LiberationSans-Bold "
    "LiberationSans-BoldItalic LiberationSans-Italic LiberationSans-Regular LiberationSansNarrow-Bold "
    "LiberationSansNarrow-BoldItalic LiberationSansNarrow-Italic LiberationSansNarrow-Regular "
    "LiberationSerif-Bold LiberationSerif-BoldItalic LiberationSerif-Italic LiberationSerif-Regular";

std::vector<char32_t> AllCharacters() {
  std::vector<char32_t> all;
  for (const std::u32string_view group : internal::kGlyphGroups) all.insert(all.end(), group.begin(), group.end());
  Rng rng(20);  // a fixed seed: the order of classes is part of the data set
  rng.Shuffle(&all);
  return all;
}

std::string Utf8(char32_t c) {
  const auto byte = [](uint32_t v) { return static_cast<char>(v); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 63))};
  return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
}

// A picture in progress: ink 0 .. 1, row major.
using Canvas = std::array<float, kSide * kSide>;

// Draws a glyph with its centre at (x, y). The stronger ink wins where two overlap.
void Lay(const GlyphBitmap& glyph, double x, double y, float strength, Canvas* canvas) {
  const int left = static_cast<int>(std::lround(x - glyph.width / 2.0));
  const int top = static_cast<int>(std::lround(y - glyph.height / 2.0));
  for (int row = 0; row < glyph.height; ++row) {
    for (int column = 0; column < glyph.width; ++column) {
      const int to_x = left + column, to_y = top + row;
      if (to_x < 0 || to_y < 0 || to_x >= kSide || to_y >= kSide) continue;
      const float ink = strength * glyph.coverage[static_cast<size_t>(row) * glyph.width + column] / 255.0f;
      float& pixel = (*canvas)[to_y * kSide + to_x];
      pixel = std::max(pixel, ink);
    }
  }
}

void Blur(float share, Canvas* canvas) {
  const Canvas from = *canvas;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      float sum = 0;
      int count = 0;
      for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) {
          if (y + dy < 0 || x + dx < 0 || y + dy >= kSide || x + dx >= kSide) continue;
          sum += from[(y + dy) * kSide + x + dx];
          ++count;
        }
      }
      float& pixel = (*canvas)[y * kSide + x];
      pixel += share * (sum / static_cast<float>(count) - pixel);
    }
  }
}

// A patch of even ink over part of the character.
void Occlude(int size, Rng* rng, Canvas* canvas) {
  const int left = static_cast<int>(rng->Below(kSide - size)), top = static_cast<int>(rng->Below(kSide - size));
  const int height = std::max(2, size - static_cast<int>(rng->Below(static_cast<uint32_t>(size))));
  const float ink = rng->Below(2) == 0 ? 0.0f : static_cast<float>(rng->Uniform(0.2, 0.8));
  for (int y = top; y < top + height; ++y) {
    for (int x = left; x < left + size; ++x) (*canvas)[y * kSide + x] = ink;
  }
}

GlyphStyle DrawStyle(double difficulty, Rng* rng) {
  GlyphStyle style;
  style.size_pixels = 18 + static_cast<int>(rng->Below(8));
  const double angle = rng->Uniform(-0.15, 0.15) * difficulty;
  const double slant = rng->Uniform(-0.2, 0.3) * difficulty;
  const double stretch = 1.0 + rng->Uniform(-0.15, 0.15) * difficulty;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  style.xx = cosine * stretch;
  style.xy = cosine * slant - sine;
  style.yx = sine * stretch;
  style.yy = sine * slant + cosine;
  style.weight = rng->Uniform(-0.4, 1.0) * difficulty;
  return style;
}

class Painter {
 public:
  Painter(const GlyphOptions& options, std::vector<std::unique_ptr<GlyphFace>> faces)
      : options_(options), characters_(AllCharacters()), faces_(std::move(faces)) {
    characters_.resize(static_cast<size_t>(options.classes));
  }

  const std::vector<char32_t>& characters() const { return characters_; }

  // Adds `count` pictures of each class, in fonts faces[i] for i of `fonts`.
  absl::Status Paint(const std::vector<int>& fonts, int count, uint64_t seed, RawImages* out) {
    *out = RawImages{kSide, kSide, 1, {}, {}};
    for (size_t label = 0; label < characters_.size(); ++label) {
      for (int i = 0; i < count; ++i) {
        Rng rng(MixSeed({seed, label, static_cast<uint64_t>(i)}));
        Canvas canvas{};
        LC_RETURN_IF_ERROR(PaintOne(fonts, characters_[label], &rng, &canvas));
        Expose(canvas, &rng, &out->pixels);
        out->labels.push_back(static_cast<int64_t>(label));
      }
    }
    return absl::OkStatus();
  }

 private:
  // A font that has the character, or INTERNAL: the list of characters is made so that each listed font has all.
  absl::StatusOr<GlyphFace*> PickFace(const std::vector<int>& fonts, char32_t character, Rng* rng) {
    const uint32_t n = static_cast<uint32_t>(fonts.size()), first = rng->Below(n);
    for (uint32_t i = 0; i < n; ++i) {
      GlyphFace* face = faces_[fonts[(first + i) % n]].get();
      if (face->Has(character)) return face;
    }
    for (const auto& face : faces_) {
      if (face->Has(character)) return face.get();
    }
    return Internal(StrCat("no font has the character '", Utf8(character), "'"));
  }

  absl::Status PaintOne(const std::vector<int>& fonts, char32_t character, Rng* rng, Canvas* canvas) {
    const double hard = options_.difficulty;
    LC_ASSIGN_OR_RETURN(GlyphFace * face, PickFace(fonts, character, rng));
    LC_ASSIGN_OR_RETURN(const GlyphBitmap glyph, face->Render(character, DrawStyle(hard, rng)));
    const double x = kSide / 2.0 + rng->Uniform(-2.0, 2.0) * hard, y = kSide / 2.0 + rng->Uniform(-2.0, 2.0) * hard;
    Lay(glyph, x, y, 1.0f, canvas);
    for (const int side : {-1, 1}) {
      if (rng->Uniform() >= 0.2 * hard) continue;
      const char32_t other = characters_[rng->Below(static_cast<uint32_t>(characters_.size()))];
      LC_ASSIGN_OR_RETURN(GlyphFace * neighbour, PickFace(fonts, other, rng));
      LC_ASSIGN_OR_RETURN(const GlyphBitmap bitmap, neighbour->Render(other, DrawStyle(hard, rng)));
      const double gap = (glyph.width + bitmap.width) / 2.0 + rng->Uniform(-1.0, 2.0);
      Lay(bitmap, x + side * gap, y + rng->Uniform(-3.0, 3.0), static_cast<float>(rng->Uniform(0.4, 1.0)), canvas);
    }
    if (rng->Uniform() < 0.5) Blur(static_cast<float>(rng->Uniform(0.1, 0.9)), canvas);
    if (rng->Uniform() < 0.3 * hard) Occlude(4 + static_cast<int>(rng->Below(6)), rng, canvas);
    return absl::OkStatus();
  }

  // Paper, contrast, an uneven light and noise.
  void Expose(const Canvas& canvas, Rng* rng, std::vector<uint8_t>* out) const {
    const double hard = options_.difficulty;
    const double paper = rng->Uniform(0.0, 0.2 * hard), contrast = rng->Uniform(1.0 - 0.4 * hard, 1.0);
    const double noise = rng->Uniform(0.02, 0.14) * hard;
    const double slope_x = rng->Uniform(-0.1, 0.1) * hard, slope_y = rng->Uniform(-0.1, 0.1) * hard;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const double light = slope_x * (x - kSide / 2) / kSide + slope_y * (y - kSide / 2) / kSide;
        const double ink = canvas[y * kSide + x] * contrast * (1 - paper);
        const double value = std::clamp(paper + light + ink + noise * rng->Normal(), 0.0, 1.0);
        out->push_back(static_cast<uint8_t>(value * 255 + 0.5));
      }
    }
  }

  const GlyphOptions options_;
  std::vector<char32_t> characters_;
  std::vector<std::unique_ptr<GlyphFace>> faces_;
};

}  // namespace

absl::Status GlyphOptions::Validate() const {
  const auto check = [](std::string_view field, int value, int low, int high) {
    if (value >= low && value <= high) return absl::OkStatus();
    return InvalidField(field, StrCat(value), StrCat(low, " .. ", high));
  };
  LC_RETURN_IF_ERROR(check("classes", classes, 2, GlyphClasses()));
  LC_RETURN_IF_ERROR(check("train_per_class", train_per_class, 1, 10000));
  LC_RETURN_IF_ERROR(check("test_per_class", test_per_class, 1, 10000));
  if (difficulty >= 0 && difficulty <= 2) return absl::OkStatus();
  return InvalidField("difficulty", StrCat(difficulty), "0 .. 2");
}

int GlyphClasses() { return static_cast<int>(AllCharacters().size()); }

std::vector<std::string> FindGlyphFonts(const std::string& folder) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> found;  // smallest path of each file name
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string(), path = it->path().string();
    const auto [place, fresh] = found.emplace(name, path);
    if (!fresh) place->second = std::min(place->second, path);
  }
  std::vector<std::string> fonts;
  for (const absl::string_view name : absl::StrSplit(ToAbsl(kFonts), ' ')) {
    const auto at = found.find(StrCat(name, ".ttf"));
    if (at != found.end()) fonts.push_back(at->second);
  }
  return fonts;
}

absl::StatusOr<Dataset> DrawGlyphs(const GlyphOptions& options, uint64_t seed) {
  LC_RETURN_IF_ERROR(options.Validate());
  const std::vector<std::string> paths = FindGlyphFonts(options.fonts_folder);
  if (paths.size() < kFontsMin) {
    return FailedPrecondition(
        StrCat("glyphs: found ", paths.size(), " of the known fonts in '", options.fonts_folder, "'; at least ",
               kFontsMin, " are needed: install fonts-dejavu-core, fonts-liberation and fonts-freefont-ttf"));
  }
  std::vector<std::unique_ptr<GlyphFace>> faces;
  std::vector<int> order;
  for (const std::string& path : paths) {
    LC_ASSIGN_OR_RETURN(faces.emplace_back(), GlyphFace::Open(path));
    order.push_back(static_cast<int>(order.size()));
  }
  Rng rng(MixSeed({seed, 0xf0275}));
  rng.Shuffle(&order);
  // Training sees the first three quarters of the mixed fonts, the test the last three quarters.
  const size_t quarter = order.size() / 4;
  const std::vector<int> train_fonts(order.begin(), order.end() - quarter),
      test_fonts(order.begin() + quarter, order.end());
  Painter painter(options, std::move(faces));
  RawDataset raw;
  LC_RETURN_IF_ERROR(painter.Paint(train_fonts, options.train_per_class, MixSeed({seed, 1}), &raw.train));
  raw.test.emplace();
  LC_RETURN_IF_ERROR(painter.Paint(test_fonts, options.test_per_class, MixSeed({seed, 2}), &*raw.test));
  for (const char32_t c : painter.characters()) raw.class_names.emplace(raw.class_names.size(), Utf8(c));
  raw.notes = StrCat("drawn from ", paths.size(), " fonts with seed ", seed);
  return FinishDataset("glyphs", std::move(raw), seed);
}

}  // namespace lightcone
