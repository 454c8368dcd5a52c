// The built-in data set "glyphs": characters drawn with FreeType from the installed fonts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone {

struct GlyphOptions {
  std::string fonts_folder = "/usr/share/fonts";  // searched with its sub folders
  int classes = 120;                              // 2 .. GlyphClasses(); the first ones of a fixed order
  int train_per_class = 60;                       // 1 .. 10000
  int test_per_class = 20;                        // 1 .. 10000
  double difficulty = 1.0;  // 0 .. 2: scales noise, occlusion, slant, and how often neighbours intrude

  absl::Status Validate() const;
};

// How many characters there are to choose from.
int GlyphClasses();

// The fonts that DrawGlyphs uses: those of a fixed list of file names (DejaVu, Liberation, GNU FreeFont) that lie under
// `folder`, in the order of that list, so that further installed fonts change nothing.
std::vector<std::string> FindGlyphFonts(const std::string& folder);

// Draws the set: 28 x 28 grey, light ink on dark paper, class names in UTF-8. Font, slant, weight, size, rotation,
// shift, contrast, blur, occlusion, neighbouring strokes and noise vary; training and test images share only some of
// the fonts. The same seed, fonts and FreeType give the same bytes. FAILED_PRECONDITION with fewer than 3 fonts: names
// the folder and the packages to install. Threads: safe. Cost: about a second at the defaults.
absl::StatusOr<Dataset> DrawGlyphs(const GlyphOptions& options, uint64_t seed);

}  // namespace lightcone
