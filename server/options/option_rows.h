// How rows of the options table are made: one function for each kind of value. For the files of the table alone.
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/options/option_table.h"

namespace lightcone::server {

struct Texts {
  std::string unit, help, when;
};

// 1_000_000 and 1000000 are the same number, as in TOML.
inline std::string WithoutUnderscores(std::string_view value) {
  std::string out(value);
  std::erase(out, '_');
  return out;
}

// Field: ServerConfig& -> an integer of any type.
template <typename Field>
Option Whole(std::string key, Field field, int64_t min, int64_t max, Texts texts) {
  Option option;
  option.key = key;
  option.unit = std::move(texts.unit);
  option.help = std::move(texts.help);
  option.when = std::move(texts.when);
  option.allowed = StrCat(min, " .. ", max);
  option.get = [field](const ServerConfig& config) { return StrCat(field(const_cast<ServerConfig&>(config))); };
  option.set = [field, key, min, max, allowed = option.allowed](std::string_view value, ServerConfig* config) {
    const std::string digits = WithoutUnderscores(value);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size() || number < min || number > max) {
      return InvalidField(key, StrCat("'", value, "'"), StrCat("a whole number, ", allowed));
    }
    auto& to = field(*config);
    to = static_cast<std::remove_reference_t<decltype(to)>>(number);
    return absl::OkStatus();
  };
  return option;
}

// With the point by which TOML tells floats from integers. 15 digits: seconds out of a duration are a sum, 1.118 of
// them 1.1179999999999999.
inline std::string TomlFloat(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", value);
  std::string out(text);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

// Read and Write: double out of and into the config.
template <typename Read, typename Write>
Option Number(std::string key, Read read, Write write, double min, double max, Texts texts) {
  Option option;
  option.key = key;
  option.unit = std::move(texts.unit);
  option.help = std::move(texts.help);
  option.when = std::move(texts.when);
  option.allowed = StrCat(min, " .. ", max);
  option.get = [read](const ServerConfig& config) { return TomlFloat(read(config)); };
  option.set = [write, key, min, max, allowed = option.allowed](std::string_view value, ServerConfig* config) {
    const std::string digits = WithoutUnderscores(value);
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size() || !(number >= min && number <= max)) {
      return InvalidField(key, StrCat("'", value, "'"), StrCat("a number, ", allowed));
    }
    write(*config, number);
    return absl::OkStatus();
  };
  return option;
}

template <typename Field>
Option Text(std::string key, Field field, std::string allowed, Texts texts) {
  Option option;
  option.key = std::move(key);
  option.is_text = true;
  option.allowed = std::move(allowed);
  option.help = std::move(texts.help);
  option.when = std::move(texts.when);
  option.get = [field](const ServerConfig& config) { return field(const_cast<ServerConfig&>(config)); };
  option.set = [field](std::string_view value, ServerConfig* config) {
    field(*config) = std::string(value);
    return absl::OkStatus();
  };
  return option;
}

template <typename Read, typename Write>
Option Choice(std::string key, Read read, Write write, std::vector<std::string> names, Texts texts) {
  Option option;
  option.key = key;
  option.is_text = true;
  option.help = std::move(texts.help);
  option.when = std::move(texts.when);
  for (const std::string& name : names) option.allowed += (option.allowed.empty() ? "" : ", ") + name;
  option.get = read;
  option.set = [write, key, names, allowed = option.allowed](std::string_view value, ServerConfig* config) {
    if (std::find(names.begin(), names.end(), value) == names.end()) {
      return InvalidField(key, StrCat("'", value, "'"), StrCat("one of ", allowed));
    }
    write(*config, std::string(value));
    return absl::OkStatus();
  };
  return option;
}

template <typename Field>
Option Flag(std::string key, Field field, Texts texts) {
  Option option;
  option.key = key;
  option.is_flag = true;
  option.allowed = "true, false";
  option.help = std::move(texts.help);
  option.when = std::move(texts.when);
  option.get = [field](const ServerConfig& config) -> std::string {
    return field(const_cast<ServerConfig&>(config)) ? "true" : "false";
  };
  option.set = [field, key](std::string_view value, ServerConfig* config) {
    if (value != "true" && value != "false") return InvalidField(key, StrCat("'", value, "'"), "true, false");
    field(*config) = value == "true";
    return absl::OkStatus();
  };
  return option;
}

#define FIELD(expression) \
  [](ServerConfig & c) -> auto& { return c.expression; }

// Rows of audit_options.cc: the audit file and the log of slow searches.
void AddAudit(std::vector<Option>* out);
// Rows of trace_options.cc.
void AddTrace(std::vector<Option>* out);

}  // namespace lightcone::server
