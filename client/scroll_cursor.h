// Walks the items of a collection page by page.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace lightcone::client {

// Walks items of a collection. After a broken connection, or a deadline that passed although pages came, the cursor
// goes on from its last token. An item that stays in place is seen exactly once. CallOptions::timeout bounds the wait
// for a page, not the whole walk. Threads: one at a time.
class ScrollCursor {
 public:
  virtual ~ScrollCursor() = default;

  // Reads the next page into `page`; false at the end. After an error the cursor may be asked again, and goes on from
  // its last token.
  virtual absl::StatusOr<bool> Next(v1::ScrollResponse* page) = 0;

  // Token of the last page: a later ScrollRequest with it goes on after that page. Empty: at the start.
  virtual const std::string& token() const = 0;
};

}  // namespace lightcone::client
