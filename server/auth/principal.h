// Who calls, as its key, token or certificate showed. Threads: const methods are safe concurrently.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/auth/scopes.h"

namespace lightcone::server::auth {

// Scopes in the collections whose names match a pattern.
struct Grant {
  Scopes scopes;
  std::vector<std::string> collections;  // patterns
};

class Quota;  // server/auth/quota.h

struct Principal {
  std::string name;
  std::vector<Grant> grants;
  std::shared_ptr<Quota> quota = nullptr;  // null: of a token, which has no limits

  // Whether the scopes are granted for some collection.
  bool MayCall(Scopes needed) const;
  // Whether the scopes are granted for this collection. The name is a collection's own, never an alias.
  bool MayUse(Scopes needed, std::string_view collection) const;
  // Whether the scopes are granted for every collection.
  bool MayUseAll(Scopes needed) const;
};
using PrincipalPtr = std::shared_ptr<const Principal>;

// Whether `name` matches `pattern`, in which each '*' stands for any text.
bool MatchesPattern(std::string_view pattern, std::string_view name);

// INVALID_ARGUMENT names `field` unless the pattern is 1 to 128 letters, digits, '-', '_', '.' and '*'.
absl::Status CheckPattern(std::string_view pattern, std::string_view field);

}  // namespace lightcone::server::auth
