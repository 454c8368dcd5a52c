// Bridges between std::string_view and the absl::string_view of Debian's absl build, where they are two types.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lightcone {

inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }

namespace internal {
template <typename T>
decltype(auto) CatArgument(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return ToAbsl(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return absl::string_view(value ? "true" : "false");
  } else {
    return (value);
  }
}
}  // namespace internal

// absl::StrCat that also takes std::string_view and prints bools as words.
template <typename... Args>
std::string StrCat(const Args&... args) {
  return absl::StrCat(internal::CatArgument(args)...);
}

}  // namespace lightcone
