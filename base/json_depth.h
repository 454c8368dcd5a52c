// How deep a JSON text nests, before it is parsed: values are printed by recursion. Thread safe.
#pragma once

#include <string_view>

namespace lightcone {

// True when brackets of `text` nest deeper than `limit`. Texts that are no JSON get an answer, too.
bool JsonNestsDeeper(std::string_view text, int limit);

}  // namespace lightcone
