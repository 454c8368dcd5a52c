// Payloads whose objects keep the order of their keys. nlohmann's parser compares each key of such an object with all
// before it. A payload of one MiB can have a hundred thousand keys, so that this one looks keys up instead.
// Threads: pure functions.
#pragma once

#include <string_view>

#include "nlohmann/json.hpp"

namespace lightcone::server {

using OrderedJson = nlohmann::ordered_json;

// A discarded value for a text that is no JSON. Of a key that stands twice in an object, the last value counts, at the
// first one's place. The caller bounds the depth.
OrderedJson ParseOrderedJson(std::string_view text);

// Sets every member of `from` in `to`. New keys come last. REQUIRES: both are objects.
void SetMembers(const OrderedJson& from, OrderedJson* to);

}  // namespace lightcone::server
