#include "server/auth/principal.h"

#include <algorithm>

#include "base/status.h"

namespace lightcone::server::auth {

bool MatchesPattern(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, kept = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      kept = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++kept;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

absl::Status CheckPattern(std::string_view pattern, std::string_view field) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '*';
  };
  if (!pattern.empty() && pattern.size() <= 128 && std::all_of(pattern.begin(), pattern.end(), allowed)) {
    return absl::OkStatus();
  }
  return InvalidField(field, StrCat("'", pattern, "'"), "1 .. 128 letters, digits, '-', '_', '.' and '*' for any text");
}

bool Principal::MayCall(Scopes needed) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& one) { return one.scopes.Include(needed); });
}

bool Principal::MayUse(Scopes needed, std::string_view collection) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& one) {
    return one.scopes.Include(needed) &&
           std::any_of(one.collections.begin(), one.collections.end(),
                       [&](const std::string& pattern) { return MatchesPattern(pattern, collection); });
  });
}

bool Principal::MayUseAll(Scopes needed) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& one) {
    return one.scopes.Include(needed) &&
           std::find(one.collections.begin(), one.collections.end(), "*") != one.collections.end();
  });
}

}  // namespace lightcone::server::auth
