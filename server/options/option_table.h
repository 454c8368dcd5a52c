// The one table of options. Flags, LIGHTCONE_* variables, keys of the TOML file, --print-config and the table in
// docs/reference/options.md come from it. Threads: the table is built once and immutable.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/options/config.h"

namespace lightcone::server {

struct Option {
  std::string key;       // "limits.k_max"; a key without a dot stands at the top of the file
  std::string unit;      // "bytes", "seconds"; empty when it has none
  std::string allowed;   // "1 .. 100000", "text, json"
  std::string help;      // sentence: what the option is
  std::string when;      // sentence: when to change the option
  bool is_text = false;  // written in quotes in the file
  bool is_flag = false;  // true or false; the flag of the command line may stand alone
  // The value as text, without quotes; and back. Set returns INVALID_ARGUMENT that names key, value and what is
  // allowed.
  std::function<std::string(const ServerConfig&)> get;
  std::function<absl::Status(std::string_view value, ServerConfig* config)> set;

  std::string Flag() const;         // "--limits-k-max"
  std::string Environment() const;  // "LIGHTCONE_LIMITS_K_MAX"
};

const std::vector<Option>& OptionTable();

// nullptr when there is none.
const Option* FindOption(std::string_view key);

// The known key that needs the fewest edits (Levenshtein) to become `key`.
std::string NearestKey(std::string_view key);

}  // namespace lightcone::server
