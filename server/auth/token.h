// JSON web tokens, signed with HMAC-SHA-256, with the claims of Qdrant's tokens:
//   exp     seconds since 1970 after which the token is refused; absent: never
//   sub     name of the caller; absent: "token"
//   access  "r" (read everything), "m" (everything), or a list of {"collection": NAME, "access": ACCESS}, where ACCESS
//           is "r" (read), "prw" (items, too) or "rw" (items and payload indexes, too)
// A token with a claim that narrows access in another way ("value_exists", "payload") is refused, never widened.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/auth/principal.h"

namespace lightcone::server::auth {

// Whether a key has the form of a token: three parts with points between them.
bool LooksLikeToken(std::string_view key);

struct TokenClaims {
  Principal principal;
  absl::Time expires = absl::InfiniteFuture();
};

// UNAUTHENTICATED unless the token is signed with one of the secrets and its claims are understood. The caller compares
// `expires` with the clock.
absl::StatusOr<TokenClaims> VerifyToken(std::string_view token, const std::vector<std::string>& secrets);

// The secrets of a file: one or two lines of at least 32 bytes each. INVALID_ARGUMENT names the line.
absl::StatusOr<std::vector<std::string>> ParseSecrets(std::string_view text);

}  // namespace lightcone::server::auth
