// One row of the options table: how an option is named, explained, checked, read and written. Only trainer/config*.cc
// and a test include this header, which defines macros. Threads: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/number_text.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "trainer/config.h"
#include "trainer/methods/method.h"

namespace lightcone::internal {

struct Row {
  std::string name, help, allowed;
  std::function<nlohmann::ordered_json(const TrainConfig&)> get;
  std::function<absl::Status(TrainConfig&, const nlohmann::json&)> set;  // setter, which checks the type alone
  std::function<bool(const TrainConfig&)> in_range;
};

std::string ShowJson(const nlohmann::ordered_json& value);

// Whether `value` is one of "a, b, c".
bool IsWord(std::string_view value, std::string_view words);

// The option that a method declares in its own file.
Row OwnRow(const OwnOption& option);

// The options of the training methods.
std::vector<Row> MethodRows();

template <typename T>
bool HasType(const nlohmann::json& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_floating_point_v<T>) {
    return value.is_number();
  } else if (value.is_number_unsigned()) {
    return std::in_range<T>(value.get<uint64_t>());
  } else {
    return value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
  }
}

template <typename Field>
Row MakeRow(std::string name, std::string help, std::string allowed, Field field,
            std::function<bool(const TrainConfig&)> ok) {
  using T = std::remove_reference_t<decltype(field(std::declval<TrainConfig&>()))>;
  Row row{std::move(name), std::move(help), std::move(allowed), {}, {}, std::move(ok)};
  row.get = [field](const TrainConfig& c) { return nlohmann::ordered_json(field(const_cast<TrainConfig&>(c))); };
  row.set = [field, name = row.name, allowed = row.allowed](TrainConfig& c, const nlohmann::json& value) {
    if (!HasType<T>(value)) return InvalidField(name, ShowJson(nlohmann::ordered_json(value)), allowed);
    field(c) = value.get<T>();
    return absl::OkStatus();
  };
  return row;
}

}  // namespace lightcone::internal

// A row for each kind of option. `path` is the member of TrainConfig and the option's name. For code in namespace
// lightcone.
#define LC_FIELD(path) \
  [](TrainConfig & c) -> auto& { return c.path; }
#define LC_NUMBER(path, min, max, help)                                                                    \
  internal::MakeRow(#path, help, StrCat(NumberText(min), " .. ", NumberText(max)), LC_FIELD(path),         \
                    [](const TrainConfig& c) {                                                             \
                      return static_cast<double>(c.path) >= (min) && static_cast<double>(c.path) <= (max); \
                    })
#define LC_BOOL(path, help) \
  internal::MakeRow(#path, help, "true or false", LC_FIELD(path), [](const TrainConfig&) { return true; })
#define LC_WORD(path, words, help)                      \
  internal::MakeRow(#path, help, words, LC_FIELD(path), \
                    [](const TrainConfig& c) { return internal::IsWord(c.path, words); })
#define LC_TEXT(path, min, max, help)                                                                                \
  internal::MakeRow(#path, help, StrCat(min, " .. ", max, " characters"), LC_FIELD(path), [](const TrainConfig& c) { \
    return std::cmp_greater_equal(c.path.size(), min) && std::cmp_less_equal(c.path.size(), max);                    \
  })
