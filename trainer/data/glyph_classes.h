// The characters of the data set "glyphs".
#pragma once

#include <array>
#include <string_view>

namespace lightcone::internal {

// Characters that every listed font has. Left out are those that look like another one once size and position vary
// (0 and O, c and C, Greek Alpha and Cyrillic A ...). DrawGlyphs mixes them in a fixed order, so that any first half
// holds letters of every script.
inline constexpr std::array<std::u32string_view, 8> kGlyphGroups = {
    U"ABCDEFGHJKLMNOPQRSTUVWXYZ", U"123456789",        U"abdefghijmnqrty", U"ΓΔΘΛΞΠΣΦΨΩ", U"αβγδεζηλμξπσφω",
    U"БДЖИЛЦЧШЩЪЫЭЮЯЂЉЊЋ",        U"&@#%?$€£§¶ßæÆþð¥", U"«©®≈≠√∫∞∂†‡±÷",
};

}  // namespace lightcone::internal
