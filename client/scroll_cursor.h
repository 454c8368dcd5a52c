// Walks the items of a collection page by page.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace lightcone::client {

// After a broken connection, or a deadline that was over although pages came, it goes on from its last token, so that
// an item that stays put is seen exactly once. CallOptions::timeout bounds the wait for a page, not the whole walk.
// Threads: one at a time.
class ScrollCursor {
 public:
  virtual ~ScrollCursor() = default;

  // Reads the next page into `page`; false at the end. After an error the cursor may be asked again: it goes on from
  // its last token.
  virtual absl::StatusOr<bool> Next(v1::ScrollResponse* page) = 0;

  // Where the walk stands: a later ScrollRequest with this token goes on behind the last page. Empty: at the start.
  virtual const std::string& token() const = 0;
};

}  // namespace lightcone::client
