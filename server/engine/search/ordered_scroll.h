// Scrolling in the order of a payload field, by its payload index.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class OrderedScrolls {
 public:
  explicit OrderedScrolls(const Context& context) : context_(context) {}

  absl::StatusOr<ScrollPage> ScrollOrdered(const std::string& collection, const OrderBy& order,
                                           const std::optional<FilterNode>& filter, int64_t page_size,
                                           const std::string& token, const ItemParts& parts,
                                           const CallContext& context) const;

 private:
  const Context& context_;
};

}  // namespace lightcone::server
