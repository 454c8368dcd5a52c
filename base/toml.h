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
  std::string key;       // key with its section: "limits.k_max"
  std::string value;     // value without quotes, escapes resolved
  bool is_text = false;  // whether the value stood in quotes
  int line = 0;          // number of the line, from 1
};

// INVALID_ARGUMENT "NAME:LINE: ..." for an unknown syntax or a repeated key. `name` is the file, for messages.
absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text, std::string_view name);

// "text" as a TOML basic string, quotes included.
std::string TomlQuoted(std::string_view text);

}  // namespace lightcone
