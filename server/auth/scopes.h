// Scopes: what a caller may do. Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone::server::auth {

// A set of scopes. `admin` includes the others.
struct Scopes {
  uint8_t bits = 0;

  // Whether every scope of `needed` is in this set.
  bool Include(Scopes needed) const;
  friend constexpr Scopes operator|(Scopes a, Scopes b) { return {static_cast<uint8_t>(a.bits | b.bits)}; }
  friend constexpr bool operator==(Scopes a, Scopes b) { return a.bits == b.bits; }
};

inline constexpr Scopes kNoScope{0};
inline constexpr Scopes kRead{1};   // searches, items, states of collections, generations, backfills and jobs
inline constexpr Scopes kWrite{2};  // items
// Payload indexes: a part of `operate`, which tokens grant beside writes. It has no name of its own in files of keys,
// and a refusal names `operate`.
inline constexpr Scopes kIndex{16};
// Generations, adapters, probe sets, backfills, jobs, indexes.
inline constexpr Scopes kOperate{4 | kIndex.bits};
inline constexpr Scopes kAdmin{8};  // collections, aliases, trainings from files of the server; and all of the above

// "read", "write", "operate" or "admin". INVALID_ARGUMENT names `field` and the value.
absl::StatusOr<Scopes> ParseScope(std::string_view name, std::string_view field);

// The names of the scopes in the set, in the order above.
std::vector<std::string> NamesOf(Scopes scopes);
// "read and write"
std::string TextOf(Scopes scopes);

}  // namespace lightcone::server::auth
