#include "server/auth/scopes.h"

#include <utility>

#include "base/status.h"

namespace lightcone::server::auth {
namespace {

constexpr std::pair<std::string_view, Scopes> kNames[] = {
    {"read", kRead}, {"write", kWrite}, {"operate", kOperate}, {"admin", kAdmin}};

}  // namespace

bool Scopes::Include(Scopes needed) const {
  return (bits & kAdmin.bits) != 0 || (needed.bits & static_cast<uint8_t>(~bits)) == 0;
}

absl::StatusOr<Scopes> ParseScope(std::string_view name, std::string_view field) {
  for (const auto& [known, scope] : kNames) {
    if (name == known) return scope;
  }
  return InvalidField(field, StrCat("'", name, "'"), "read, write, operate, admin");
}

std::vector<std::string> NamesOf(Scopes scopes) {
  std::vector<std::string> names;
  for (const auto& [name, scope] : kNames) {
    if ((scopes.bits & scope.bits) != 0) names.emplace_back(name);
  }
  return names;
}

std::string TextOf(Scopes scopes) {
  std::string text;
  for (const std::string& name : NamesOf(scopes)) text += (text.empty() ? "" : " and ") + name;
  return text;
}

}  // namespace lightcone::server::auth
