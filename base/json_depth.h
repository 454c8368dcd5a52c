// The nesting depth of a JSON text before it is parsed: parsed values are printed by recursion. Threads: pure function.
#pragma once

#include <string_view>

namespace lightcone {

// True when brackets of `text` nest deeper than `limit`. The text need not be JSON.
bool JsonNestsDeeper(std::string_view text, int limit);

}  // namespace lightcone
