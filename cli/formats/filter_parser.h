// The text form of filters, as people type it, into the wire's Filter message. docs/reference/filters.md has the
// grammar:
//
//   class = "cat" and (year >= 2020 or not exists(flag)) and color in ("red", "blue") and $generation = 2
//
// Threads: safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "lightcone/v1/types.pb.h"

namespace lightcone::cli {

// INVALID_ARGUMENT when the text does not parse: the message says what was expected and found, at which column (counted
// in characters, from 1), and shows the text with a caret under that column.
absl::StatusOr<v1::Filter> ParseFilter(std::string_view text);

}  // namespace lightcone::cli
