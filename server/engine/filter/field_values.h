// Values of a payload field as facets count them and groups are named: a number that is a whole 64-bit integer is one,
// however it is written. Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/engine/filter/filter.h"
#include "server/engine/filter/payload_field.h"

namespace lightcone::server {

// -2^63 .. 2^63 - 1 as an integer where the number is one; integers above as the nearest double.
FilterValue CountedValue(const FilterValue& value);

// The different values of a payload at a path, through arrays.
std::vector<FilterValue> CountedValuesAt(std::string_view payload_json, std::span<const std::string> keys);

// Texts by bytes, then numbers, then false and true.
bool IsValueBefore(const FilterValue& a, const FilterValue& b);

}  // namespace lightcone::server
