// A small strict reader of the part of TOML that a configuration needs: [section] headers, key = value, dotted keys,
// basic and literal strings, integers, floats, booleans, comments. Arrays, tables in line, dates and multi-line strings
// are refused with their line. Source: https://toml.io/en/v1.0.0. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

struct TomlEntry {
  std::string key;       // with its section: "limits.k_max"
  std::string value;     // without quotes, escapes resolved
  bool is_text = false;  // it stood in quotes
  int line = 0;          // from 1
};

// INVALID_ARGUMENT "NAME:LINE: ..." for what is not understood or stands twice. `name` is the file, for messages.
absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text, std::string_view name);

// "text" as a TOML basic string, quotes included.
std::string TomlQuoted(std::string_view text);

}  // namespace lightcone
