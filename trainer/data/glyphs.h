// The built-in data set "glyphs": characters drawn with FreeType from the installed fonts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone {

struct GlyphOptions {
  std::string fonts_folder = "/usr/share/fonts";  // folder of fonts, searched with its subfolders
  int classes = 120;                              // number of classes, 2 .. GlyphClasses(), from a fixed order
  int train_per_class = 60;                       // number of images, 1 .. 10000
  int test_per_class = 20;                        // number of images, 1 .. 10000
  double difficulty = 1.0;                        // factor 0 .. 2 on noise, occlusion, slant and neighbouring strokes

  absl::Status Validate() const;
};

// Number of characters to choose from.
int GlyphClasses();

// The fonts of DrawGlyphs: files under `folder` of a fixed list of names (DejaVu, Liberation, GNU FreeFont), in the
// order of the list. Further installed fonts change nothing.
std::vector<std::string> FindGlyphFonts(const std::string& folder);

// Draws the set: 28 x 28 grey, light ink on dark paper, class names in UTF-8. Font, slant, weight, size, rotation,
// shift, contrast, blur, occlusion, neighbouring strokes and noise vary. Training and test images share some of the
// fonts. The same seed, fonts and FreeType give the same bytes. FAILED_PRECONDITION with fewer than 3 fonts names the
// folder and the packages to install. Threads: safe. Cost: about a second at the defaults.
absl::StatusOr<Dataset> DrawGlyphs(const GlyphOptions& options, uint64_t seed);

}  // namespace lightcone
