// The file of keys: one JSON object a line. Empty lines and lines that begin with '#' are comments.
//   {"name": "search", "sha256": "<64 hex>", "scopes": ["read"], "collections": ["shop-*"], "expires": "<RFC 3339>"}
// A line with "certificate" in place of "sha256" maps a client certificate by a name in it (a subject alternative name,
// or the common name). "collections" is absent: every collection. "expires" is absent: never.
// A name may stand in two lines with hashes, so that a key is replaced while both are valid.
// "calls_per_second", "calls_in_flight_max", "rows_per_second" and "bytes_per_second" are whole numbers. Absent: no
// limit. The two lines of a name have the same limits and share what they allow.
// Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/auth/principal.h"
#include "server/auth/quota.h"

namespace lightcone::server::auth {

using KeyHash = std::array<uint8_t, 32>;  // SHA-256

inline constexpr size_t kKeysMax = 10'000;

struct KeyEntry {
  std::string name;         // 1 .. 64 letters, digits, '-', '_', '.' and '@'
  KeyHash hash = {};        // hash of the key; unused with a certificate
  std::string certificate;  // name in a client certificate; empty: the entry is a key
  Grant grant;
  absl::Time expires = absl::InfiniteFuture();
  CallLimits limits;
};

// Errors name the line, the field, the value and what is allowed: INVALID_ARGUMENT.
absl::StatusOr<std::vector<KeyEntry>> ParseKeys(std::string_view text);

// INVALID_ARGUMENT for a name, scopes, patterns or limits that a line may not have.
absl::Status CheckKey(const KeyEntry& entry);

// The line of an entry, without its end.
std::string LineOf(const KeyEntry& entry);

// A new key of 256 random bits: "lck_" and 43 characters of base64url. INTERNAL when the system gives no random bits.
absl::StatusOr<std::string> MakeKey();

// Keys are random, so that a plain hash cannot be inverted by guessing.
KeyHash HashOf(std::string_view key);

}  // namespace lightcone::server::auth
