// JSON whose objects keep the order of their keys, in time in proportion to the text. nlohmann's own reader compares
// each key of such an object with all before it, and others may send a hundred thousand keys in a MiB.
#pragma once

#include <string_view>

#include "nlohmann/json.hpp"

namespace lightcone {

using OrderedJson = nlohmann::ordered_json;

// A discarded value for a text that is no JSON. Of a key that stands twice in an object, the last value counts, at the
// first one's place. The caller bounds the depth. Threads: safe.
OrderedJson ParseOrderedJson(std::string_view text);

// Sets every member of `from` in `to`. New keys come last. REQUIRES: both are objects. Threads: one at a time.
void SetMembers(const OrderedJson& from, OrderedJson* to);

}  // namespace lightcone
