#include "trainer/data/glyphs.h"

#include <set>

#include "tests/trainer/data_files.h"
#include "trainer/data/glyph_face.h"

namespace lightcone {
namespace {

using ::testing::HasSubstr;
using testing_data::Folder;

GlyphOptions Small() {
  GlyphOptions options;
  options.train_per_class = 3;
  options.test_per_class = 2;
  return options;
}

TEST(Glyphs, TheSameSeedDrawsTheSameBytesAndAnotherSeedOthers) {
  const auto one = DrawGlyphs(Small(), 7), again = DrawGlyphs(Small(), 7), other = DrawGlyphs(Small(), 8);
  ASSERT_TRUE(one.ok()) << MessageOf(one.status());
  EXPECT_EQ(one->train.pixels, again->train.pixels);
  EXPECT_EQ(one->test.pixels, again->test.pixels);
  EXPECT_NE(one->train.pixels, other->train.pixels);
  EXPECT_EQ(one->class_names, other->class_names);
}

TEST(Glyphs, TheDefaultHas120ClassesOf28By28GreyDrawings) {
  const auto set = OpenDataset("glyphs", 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_EQ(set->name, "glyphs");
  EXPECT_EQ(set->classes(), 120);
  EXPECT_EQ(set->train.size(), 120 * 60);
  EXPECT_EQ(set->test.size(), 120 * 20);
  EXPECT_EQ(set->train.height, 28);
  EXPECT_EQ(set->train.channels, 1);
  EXPECT_EQ(set->augment, AugmentKind::kDrawing);
  EXPECT_EQ(std::set<std::string>(set->class_names.begin(), set->class_names.end()).size(), 120);
}

TEST(Glyphs, EveryListedFontHasEveryCharacter) {
  GlyphOptions options = Small();
  options.classes = GlyphClasses();
  options.train_per_class = options.test_per_class = 1;
  const auto set = DrawGlyphs(options, 1);
  ASSERT_TRUE(set.ok());
  for (const std::string& path : FindGlyphFonts(options.fonts_folder)) {
    const auto face = internal::GlyphFace::Open(path);
    ASSERT_TRUE(face.ok());
    for (const std::string& name : set->class_names) {
      const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(name[i])); };
      const char32_t character = name.size() == 1   ? byte(0)
                                 : name.size() == 2 ? (byte(0) & 31) << 6 | (byte(1) & 63)
                                                    : (byte(0) & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63);
      EXPECT_TRUE((*face)->Has(character)) << path << " " << name;
    }
  }
}

TEST(Glyphs, FewerThanThreeFontsIsAnErrorThatSaysWhatToInstall) {
  const Folder folder;
  GlyphOptions options = Small();
  options.fonts_folder = folder.path();
  const std::vector<std::string> fonts = FindGlyphFonts("/usr/share/fonts");
  ASSERT_GE(fonts.size(), 3);
  for (int i = 0; i < 2; ++i) {
    std::filesystem::create_symlink(fonts[i],
                                    folder.path() + "/" + std::filesystem::path(fonts[i]).filename().string());
  }
  const auto set = DrawGlyphs(options, 1);
  EXPECT_EQ(set.status().code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& text : {StrCat("found 2 of the known fonts in '", folder.path(), "'"),
                                  std::string("fonts-dejavu-core, fonts-liberation and fonts-freefont-ttf")}) {
    EXPECT_THAT(MessageOf(set.status()), HasSubstr(text));
  }
  std::filesystem::create_symlink(fonts[2], folder.path() + "/" + std::filesystem::path(fonts[2]).filename().string());
  EXPECT_TRUE(DrawGlyphs(options, 1).ok());
}

TEST(Glyphs, ADamagedFontIsDataLossAndNamed) {
  const Folder folder;
  GlyphOptions options = Small();
  options.fonts_folder = folder.path();
  for (const char* name : {"DejaVuSans.ttf", "FreeSans.ttf", "FreeMono.ttf"}) folder.Write(name, "no font");
  const auto set = DrawGlyphs(options, 1);
  EXPECT_EQ(set.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(set.status()), HasSubstr("DejaVuSans.ttf: FreeType cannot read"));
}

TEST(Glyphs, OptionsOutOfRangeAreNamed) {
  GlyphOptions options = Small();
  options.classes = 1;
  EXPECT_THAT(MessageOf(DrawGlyphs(options, 1).status()), HasSubstr("field 'classes' is 1; allowed: 2 .. "));
  options = Small();
  options.difficulty = 3;
  EXPECT_THAT(MessageOf(DrawGlyphs(options, 1).status()), HasSubstr("field 'difficulty' is 3; allowed: 0 .. 2"));
}

}  // namespace
}  // namespace lightcone
