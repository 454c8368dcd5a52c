// Where a scroll stands: an opaque text that names the last item key of a page.
// Layout, in hex: version (1 byte, 1) | collection (4, big endian) | key (any length) | CRC-32C of all before (4).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/services/catalog.h"
#include "server/engine/services/served.h"

namespace lightcone::server {

struct ScrollToken {
  uint32_t collection = 0;
  std::string last_key;  // key in table kItems; of an ordered scroll, its place in the order
};

std::string EncodeScrollToken(const ScrollToken& token);

// The token from which a walk begins at an item's key, whether there is such an item or not. REQUIRES: `item_key` is
// one of keys::Item.
std::string EncodeScrollTokenAt(uint32_t collection, std::string_view item_key);

// INVALID_ARGUMENT naming field 'token' for anything that EncodeScrollToken did not make.
absl::StatusOr<ScrollToken> DecodeScrollToken(std::string_view text);

// The key of table kItems at which a walk over the collection goes on: behind the token's, or at the beginning without
// a token. INVALID_ARGUMENT naming field 'token' for one of another collection.
absl::StatusOr<std::string> ScrollBegin(const std::optional<ScrollToken>& token, uint32_t collection);

// The collection that a scroll reads. Under an alias that is the one of the token, wherever the alias points now: a
// walk ends in the collection in which it began.
absl::StatusOr<ServedPtr> FindScrolled(const Catalog& catalog, const std::string& name,
                                       const std::optional<ScrollToken>& from);

}  // namespace lightcone::server
